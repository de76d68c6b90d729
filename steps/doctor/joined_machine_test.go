package doctor_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/preflight"
	"nodejoin/steps/stepstest"
)

// fixture is a joined machine in good order, except for what a case changes.
type fixture struct {
	t      *testing.T
	config sandbox.Config
	quirks sandbox.Quirks
	view   doctor.ClusterView
	list   []steps.Spec
	then   []func(h host.Host) // after the machine is as its steps say
}

const (
	cniConfV2 = `{"name":"flannel.4096","plugins":[{"type":"flannel","delegate":{"type":"win-overlay","policies":[` +
		`{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT",` +
		`"Settings":{"Exceptions":["10.244.0.0/16","10.96.0.0/12"]}}}]}}]}`
	subnetEnv = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
)

func newFixture(t *testing.T) *fixture {
	service := func(name string, args ...string) steps.Spec {
		return stepstest.Spec("service", strings.ReplaceAll(name, "-", "_"),
			&kinds.Service{ServiceConfig: host.ServiceConfig{Name: name,
				Command: append([]string{`C:\x\` + name + `-run.exe`}, args...)}, Log: `C:\x\` + name + ".log"})
	}
	node := &kube.Node{Name: "win-1", Ready: true, PodCIDR: "10.244.3.0/24"}
	p := &fixture{t: t, config: sandbox.Config{Path: t.TempDir(), Hostname: "win-host", IP: "192.0.2.10"},
		quirks: sandbox.Quirks{Networks: []host.HNSNetwork{{Name: "flannel.4096", Type: "Overlay",
			ManagementIP: "192.0.2.10"}}},
		view: doctor.ClusterView{Node: node, Clock: time.Now(), Services: []kube.Service{
			{Namespace: "default", Name: "kubernetes", ClusterIP: "10.96.0.1"},
			{Namespace: "kube-system", Name: "kube-dns", ClusterIP: "10.96.0.10"}}},
	}
	p.list = []steps.Spec{
		stepstest.Spec("preflight", "require", &preflight.Preflight{}),
		stepstest.Spec("file", "containerd_config",
			&kinds.File{Path: `C:\x\config.toml`,
				Content: "[plugins.'io.containerd.cri.v1.images'.pinned_images]\n  sandbox = 'registry.k8s.io/pause:3.10.2'\n"}),
		service("containerd", "--config", `C:\x\config.toml`),
		stepstest.Spec("file", "kubelet_config",
			&kinds.File{Path: `C:\x\kubelet.yaml`, Content: "resolvConf: \"\"\nclusterDNS: ['10.96.0.10']\n"}),
		service("kubelet", "--windows-service", `--config=C:\x\kubelet.yaml`),
		service("flanneld"),
		stepstest.Spec("hns_network", "flannel_network", &kinds.HNSNetwork{Name: "flannel.4096", Type: "Overlay",
			Subnet: steps.Ref("registered.pod_cidr"), VNI: 4096, Service: "flanneld"}),
		stepstest.Spec("file_ready", "subnet_env", &kinds.FileReady{Path: `C:\run\flannel\subnet.env`,
			Contains: "FLANNEL_SUBNET=", Service: "flanneld"}),
		stepstest.Spec("file", "cni_conf", &kinds.File{Path: `C:\x\10-flannel.conflist`, Content: cniConfV2}),
		stepstest.Spec("cni_conf_first", "cni_conf_first", &kinds.CNIConfFirst{Path: `C:\x\10-flannel.conflist`}),
		stepstest.Spec("source_vip", "source_vip", &kinds.SourceVIP{Dir: `C:\x\networks`, Network: "flannel.4096",
			Subnet: steps.Ref("registered.pod_cidr")}),
		stepstest.Spec("file", "kube_proxy_config",
			&kinds.File{Path: `C:\x\kube-proxy.yaml`, Content: "hostnameOverride: win-1\nwinkernel:\n  sourceVip: " +
				steps.Ref("source_vip.address") + "\n"}),
		service("kube-proxy", "--windows-service", `--config=C:\x\kube-proxy.yaml`),
	}
	return p
}

// linux makes it a Linux machine with a kubelet.
func (p *fixture) linux() {
	p.config.OS, p.quirks.Networks = "linux", nil
	p.list = []steps.Spec{p.list[0], stepstest.Spec("service", "kubelet",
		&kinds.Service{ServiceConfig: host.ServiceConfig{Name: "kubelet", Command: []string{"/x/kubelet-run"}}}),
		stepstest.Spec("file_ready", "subnet_env", &kinds.FileReady{Path: `/run/flannel/subnet.env`,
			Contains: "FLANNEL_SUBNET=", Service: "flanneld"})}
	p.file("/run/flannel/subnet.env", subnetEnv)
}

// proxies makes it a Linux machine that such a DaemonSet selects, and whose plan has a service of that name.
func (p *fixture) proxies(daemonSet kube.DaemonSet, service string) {
	p.linux()
	p.view.DaemonSets = append(p.view.DaemonSets, daemonSet)
	p.list = append(p.list, stepstest.Spec("service", "proxy",
		&kinds.Service{ServiceConfig: host.ServiceConfig{Name: service, Command: []string{"/x/kube-proxy-run"}}}))
}

func (p *fixture) do(f func(h host.Host) error) {
	p.then = append(p.then, func(h host.Host) { stepstest.Must(p.t, f(h)) })
}

func (p *fixture) file(path, text string) {
	p.then = append(p.then, func(h host.Host) { stepstest.Put(p.t, h, path, text) })
}

func (p *fixture) remove(path string) {
	p.do(func(h host.Host) error { return h.Remove(p.t.Context(), path) })
}

// register changes a service's registration by hand.
func (p *fixture) register(name string, change func(c *host.ServiceConfig)) {
	p.do(func(h host.Host) error {
		svc, err := h.Service(p.t.Context(), name)
		if err != nil {
			return err
		}
		change(&svc.ServiceConfig)
		return h.UpdateService(p.t.Context(), svc.ServiceConfig)
	})
}

func (p *fixture) registry(key, name, text string) {
	p.do(func(h host.Host) error {
		return h.SetRegistryValue(p.t.Context(), key, name, host.RegistryValue{Type: "string", String: text})
	})
}

// updated gives the plan the lowest update that works; the machine has 9999.
func (p *fixture) updated(lowest int) {
	p.list = append(p.list, stepstest.Spec("preflight", "updates",
		&preflight.Preflight{MinRevisions: map[string]int{"10.0.20348": lowest}}))
}

// mergesRules has group policy say whether local rules of the firewall count in public networks.
func (p *fixture) mergesRules(value uint64) {
	p.list = append(p.list, stepstest.Spec("firewall_rule", "rule", &kinds.FirewallRule{FirewallRule: host.FirewallRule{
		Name: "r", Direction: "in", Action: "allow", Protocol: "tcp", Ports: "10250", Enabled: true}}))
	p.do(func(h host.Host) error {
		return h.SetRegistryValue(p.t.Context(), `HKLM\SOFTWARE\Policies\Microsoft\WindowsFirewall\PublicProfile`,
			"AllowLocalPolicyMerge", host.RegistryValue{Type: "dword", Number: value})
	})
}

func (p *fixture) bridge(network string) {
	p.quirks.Networks[0].Type = network
}

func (p *fixture) pod(waiting string, age time.Duration) {
	p.view.Pods = append(p.view.Pods, kube.Pod{Namespace: "d", Name: "web", Waiting: waiting,
		Created: p.view.Clock.Add(-age)})
}

// daemonSet is one of that age whose pod d/proxy-x has run for an hour, or waits.
func (p *fixture) daemonSet(name string, namesOS bool, waiting string, age time.Duration) {
	p.view.Pods = append(p.view.Pods, kube.Pod{Namespace: "d", Name: "proxy-x", Controller: "DaemonSet", Owner: "proxy",
		Waiting: waiting, Created: p.view.Clock.Add(-time.Minute)})
	p.view.DaemonSets = append(p.view.DaemonSets, kube.DaemonSet{Namespace: "d", Name: name, NamesOS: namesOS,
		Created: p.view.Clock.Add(-age)})
}

// nssm makes a service run under it, by hand, with these values.
func (p *fixture) nssm(values ...string) {
	p.register("kube-proxy", func(c *host.ServiceConfig) { c.Command = []string{`C:\nssm\nssm.exe`} })
	for _, v := range values {
		p.registry(stepstest.Services+`kube-proxy\Parameters`, v, `C:\k\proxy.log`)
	}
}

// examine creates the machine, changes it as the case says, and diagnoses it.
func (p *fixture) diagnose() doctor.DiagnoseReply {
	p.t.Helper()
	h, err := sandbox.Open(context.Background(), p.config)
	stepstest.Must(p.t, err)
	dir, ext := `C:\x\`, "-run.exe"
	if p.config.OS == "linux" {
		dir, ext = "/x/", "-run"
	} else {
		stepstest.Put(p.t, h, `C:\run\flannel\subnet.env`, subnetEnv)
		stepstest.Put(p.t, h, `C:\nssm\nssm.exe`, "program")
	}
	for _, name := range []string{"containerd", "kubelet", "flanneld", "kube-proxy"} {
		stepstest.Put(p.t, h, dir+name+ext, "program")
	}
	var list []steps.Spec
	for _, s := range p.list { // gates and the preflight are only checked
		if s.Kind == "file" || s.Kind == "service" || s.Kind == "source_vip" {
			s.Args = steps.ResolveArgs(s.Args, map[string]string{"registered.pod_cidr": "10.244.3.0/24"})
			list = append(list, s)
		}
	}
	stepstest.Applied(p.t, h, stepstest.Memory{}, list)
	for _, f := range p.then {
		f(h)
	}
	raw, err := json.Marshal(p.quirks)
	stepstest.Must(p.t, err)
	stepstest.Must(p.t, os.WriteFile(filepath.Join(p.config.Path, ".sandbox", "quirks.json"), raw, 0o600))
	x := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {})
	req := doctor.DiagnoseRequest{Node: "win-1", Steps: p.list, PodCIDR: []string{"registered.pod_cidr"},
		Cluster: p.view}
	reply, err := examine(p.t, x, req)
	stepstest.Must(p.t, err)
	reply.Symptoms = append(reply.Symptoms, doctor.KubeProxies(req, reply.Facts.OS)...) // as the controller does
	if reply.Mutations != 0 {
		p.t.Errorf("%d mutating calls", reply.Mutations)
	}
	return reply
}

func examine(t *testing.T, x *executor.Executor, req doctor.DiagnoseRequest) (doctor.DiagnoseReply, error) {
	h, e, err := x.Machine(t.Context(), req.Node, "doctor")
	stepstest.Must(t, err)
	reply, err := doctor.Diagnose(t.Context(), h, e, req)
	reply.Mutations = x.Mutations()
	return reply, err
}
