package kinds_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// inKernel is a runtime whose CNI plugins make a bridge, chains, tables, routes and network
// namespaces.
func inKernel(links ...string) []steps.Spec {
	s := stepstest.Service("containerd", "/usr/local/bin/containerd")
	s.Interfaces, s.Chains, s.NetworkNamespaces = append(slices.Clone(links), "cni0"), []string{"CNI-"}, []string{"cni-"}
	s.FilterTables, s.Routes = []string{"kube-proxy"}, []string{"10.244.0.0/16"}
	return []steps.Spec{stepstest.Spec("file", "program", &kinds.File{Path: "/usr/local/bin/containerd",
		Content: "containerd", Access: host.AccessProgram}), stepstest.Spec("service", "containerd", s)}
}

// The same for what programs create in the kernel: interfaces, chains of the packet filter and network namespaces.
func TestLeaveMadeInKernel(t *testing.T) {
	m := newMachine(t, "linux")
	theirs := []host.FilterChain{{Family: "ipv4", Table: "nat", Name: "CNI-THEIRS"},
		{Family: "ipv4", Table: "nat", Name: "DOCKER"}}
	stepstest.Must(t, m.PutFilterChains(t.Context(), theirs...))
	stepstest.Must(t, m.PutFilterTables(t.Context(), host.FilterTable{Family: "inet", Name: "kube-proxy"},
		host.FilterTable{Family: "inet", Name: "firewall"}))
	theirWays := []host.Route{
		{Destination: "10.244.0.0/16", Gateway: "192.0.2.9", Interface: "eth0"}, // the whole network
		{Destination: "10.244.5.0/24", Gateway: "192.0.2.9", Interface: "eth0"},
		{Destination: "10.245.1.0/24", Gateway: "192.0.2.9", Interface: "eth0"},
	}
	stepstest.Must(t, m.PutRoutes(t.Context(), theirWays...))
	stepstest.Put(t, m, "/run/netns/cni-theirs", "")
	before := m.snapshot(t)
	stepstest.Applied(t, m, stepstest.Memory{}, inKernel("eth0"))
	stepstest.Put(t, m, "/run/netns/cni-2", "")
	stepstest.Must(t, m.PutFilterTables(t.Context(), host.FilterTable{Family: "ip", Name: "kube-proxy"},
		host.FilterTable{Family: "ip6", Name: "kube-proxy"}))
	stepstest.Must(t,
		m.PutRoutes(t.Context(), host.Route{Destination: "10.244.1.0/24", Gateway: "192.0.2.2", Interface: "eth0"},
			host.Route{Destination: "10.244.2.0/24", Gateway: "192.0.2.3", Interface: "eth0"}))
	x := executor.NewExecutor(kinds.Catalog(), m, stepstest.Memory{}, func(event.Event) {})
	reply, err := x.Leave(t.Context(), executor.LeaveRequest{Node: "lin-1"})
	stepstest.Must(t, err)
	if reply.Err != nil {
		t.Fatal(reply.Failed, reply.Err)
	}
	if d := cmp.Diff(map[string]string{"interface:eth0": "it was there before nodejoin",
		"chains:CNI-":             "it was there before nodejoin: ipv4/nat/CNI-THEIRS",
		"filter_table:kube-proxy": "it was there before nodejoin: inet/kube-proxy",
		"routes:10.244.0.0/16":    "it was there before nodejoin: 10.244.5.0/24 via 192.0.2.9 dev eth0",
		"netns:cni-":              "it was there before nodejoin: cni-theirs"}, leftBy(reply)); d != "" {
		t.Error(d)
	}
	_, err = x.Forget(t.Context(), executor.LeaveRequest{Node: "lin-1"})
	stepstest.Must(t, err)
	if d := cmp.Diff(before, m.snapshot(t)); d != "" {
		t.Errorf("the machine before (-) and after (+):\n%s", d)
	}
}

// The folder with the names of network namespaces is removed with ours, unless it has others.
func TestLeaveNetworkNamespaces(t *testing.T) {
	for _, name := range []string{"cni-1", "admin"} {
		m := newMachine(t, "linux")
		stepstest.Applied(t, m, stepstest.Memory{}, inKernel())
		stepstest.Put(t, m, "/run/netns/cni-0", "")
		stepstest.Put(t, m, "/run/netns/"+name, "")
		switch err := left(t, m); {
		case name == "cni-1":
			stepstest.Must(t, err)
		case err == nil || !strings.Contains(err.Error(),
			"directory:/run/netns:it holds what is not nodejoin's: admin"):
			t.Error(err)
		}
		if _, err := m.Stat(t.Context(), "/run/netns/cni-0"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}
