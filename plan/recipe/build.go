package recipe

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/templates"
)

// build collects the steps of one node.
type build struct {
	in         Input
	kubernetes compat.Kubernetes
	containerd compat.Containerd // zero for other runtimes
	runtime    runtimeFacts
	specs      []steps.Spec
	before     map[string]bool // ids of settings that come before services
	left       map[string]bool // ids that the settings skip
	needs      []string        // ids that come before the kubelet starts, and before its token is made
	err        error           // the first one; later calls do nothing
}

func newBuild(in Input) (*build, error) {
	k, err := compat.Kubelet(in.Kubernetes)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	if !k.Supported {
		floor, _ := compat.KubernetesRange()
		return nil, &UnsupportedError{"cluster",
			fmt.Sprintf("Kubernetes %s is older than %s, the oldest version with a recipe", in.Kubernetes, floor)}
	}
	b := &build{in: in, kubernetes: k}
	if err := b.lookupRuntime(); err != nil {
		return nil, err
	}
	return b, nil
}

// runtimeFacts are what the rest of a recipe needs to know about the runtime.
type runtimeFacts struct {
	service string // service that the kubelet depends on
	ready   string // id of its gate
	api     string // CRI version that kubelet and runtime speak; "" = docker
}

// lookupRuntime checks the runtime against the Kubernetes version and looks up its facts.
func (b *build) lookupRuntime() error {
	in := b.in
	if in.Runtime.Kind != "containerd" {
		if v := compat.CheckDocker(in.Kubernetes); !v.Accepted() {
			return &UnsupportedError{"runtime", v.Why}
		}
		if in.Network.sdn() {
			return &UnsupportedError{"runtime",
				fmt.Sprintf("the CNI plugin %s does not support docker's containers, which have no HNS namespace; use %s",
					in.Network.delegate(), Delegates(in.Network.Backend)[0])}
		}
		b.runtime = runtimeFacts{service: "docker", ready: "docker_ready"}
		return nil
	}
	c, err := compat.LookupContainerd(in.Runtime.Version)
	if err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	if v := compat.CheckContainerd(in.Kubernetes, in.Runtime.Version); !v.Accepted() {
		return &UnsupportedError{"runtime", v.Why}
	}
	b.containerd = c
	b.runtime = runtimeFacts{service: "containerd", ready: "containerd_ready", api: compat.RuntimeAPI(b.kubernetes, c)}
	if len(in.Runtime.Registries) > 0 && !c.ConfigPath {
		return &UnsupportedError{"runtime",
			fmt.Sprintf("containerd %s does not read hosts.toml files, so registries cannot be configured", in.Runtime.Version)}
	}
	return nil
}

// fail keeps the first error.
func (b *build) fail(err error) {
	if b.err == nil && err != nil {
		b.err = err
	}
}

// nodeIPs returns the node's addresses in the format of the kubelet's --node-ip.
func (b *build) nodeIPs() string { return strings.Join(b.addresses(), ",") }

// addresses returns the addresses of the node, IPv4 first.
func (b *build) addresses() []string {
	if b.in.ManagementIP6 == "" {
		return []string{b.managementIP()}
	}
	return []string{b.managementIP(), b.in.ManagementIP6}
}

// managementIP returns the node's address, or a reference to the host's fact.
func (b *build) managementIP() string {
	if b.in.ManagementIP != "" {
		return b.in.ManagementIP
	}
	return steps.Ref("fact.management_ip")
}

// flannel reports whether nodejoin runs the pod network, and kube-proxy with it.
func (b *build) flannel() bool { return b.in.Network.Kind != "none" }

// proxy reports whether nodejoin runs kube-proxy on a Linux node.
func (b *build) proxy() bool { return b.flannel() && !b.in.KubeProxy.Off }

// withFlannel returns the kernel objects that programs create when nodejoin runs the pod network. Otherwise
// they belong to pods and may outlive a leave.
func (b *build) withFlannel(names ...string) []string {
	if !b.flannel() {
		return nil
	}
	return names
}

// refused reports whether the plan sets a field of the kubelet's configuration to false.
func (b *build) refused(field string) bool { return b.in.Kubelet.Config[field] == false }

// netConfOf returns flanneld's configuration, which is the same on all nodes of the cluster.
func netConfOf(in Input) templates.NetConf {
	return templates.NetConf{Network: in.PodCIDR, Backend: in.Network.Backend, VNI: in.Network.VNI, Port: in.Network.Port,
		Name: bridgeName}
}

// networkName is the HNS network that kube-proxy and the CNI configuration name: the one that flanneld
// creates, or the one that the plan says another CNI creates.
func (b *build) networkName() string {
	switch n := b.in.Network; {
	case n.Kind == "none":
		return n.HNSNetwork
	case n.Backend == HostGW:
		return bridgeName
	default:
		return fmt.Sprintf("flannel.%d", n.VNI)
	}
}

// kubeProxy reports whether the node gets a kube-proxy.
func (b *build) kubeProxy() bool { return b.in.Network.Kind != "none" || b.in.Network.HNSNetwork != "" }

// dualStack reports whether pods and services use both IP families.
func (b *build) dualStack() bool { return strings.Contains(b.in.PodCIDR, ",") }

// familyGates returns the feature gates without which kubelet and kube-proxy of the version support one IP
// family only.
func (b *build) familyGates() []string {
	if b.dualStack() && b.kubernetes.DualStackGate {
		return []string{"IPv6DualStack"}
	}
	return nil
}

// pause returns the pause image.
func (b *build) pause() string { return b.in.PauseImage() }

// PauseImage is the image of the pods' sandboxes.
func (in *Input) PauseImage() string {
	if in.Runtime.Pause != "" {
		return in.Runtime.Pause
	}
	return compat.PauseImage(in.OS, in.Build)
}

// reboots reports whether nodejoin may reboot the machine, immediately or at a time of the plan.
func (b *build) reboots() bool {
	r := b.in.Settings.Reboot
	return r != nil && (r.Policy == kinds.RebootAuto || r.Policy == kinds.RebootWindow)
}

// features returns the Windows features that the plan turns on.
func (b *build) features() (names []string) {
	for _, s := range b.in.Settings.Steps {
		if f, ok := s.Args.(*kinds.Feature); ok {
			names = append(names, f.Name)
		}
	}
	return names
}

// sets reports whether the plan has a setting of the machine, by the id of its step.
func (b *build) sets(id string) bool {
	return slices.ContainsFunc(b.in.Settings.Steps, func(s Setting) bool { return s.ID == id })
}

// turnsOn reports whether the plan turns a feature on.
func (b *build) turnsOn(name string) bool {
	return slices.ContainsFunc(b.features(), func(f string) bool { return strings.EqualFold(f, name) })
}

// variable is an environment variable.
type variable struct{ name, value string }

// proxyVariables returns the proxy's variables, as Go programs, curl and others read them.
func (b *build) proxyVariables() []variable {
	p := b.in.Settings.Proxy
	if p == nil {
		return nil
	}
	var out []variable
	for _, v := range []variable{{"HTTP_PROXY", p.HTTP}, {"HTTPS_PROXY", p.HTTPS},
		{"NO_PROXY", strings.Join(b.noProxy(), ",")}} {
		if v.value != "" {
			out = append(out, v)
		}
	}
	return out
}

// proxyAddresses returns the addresses of the proxies that the machine must reach.
func (b *build) proxyAddresses() []string {
	if b.in.Settings.Proxy == nil {
		return nil
	}
	return b.in.Settings.Proxy.Addresses
}

// noProxy returns what must bypass the proxy: this machine, the API server, the networks and names of the
// cluster, then the plan's additions. Other nodes are not included: each new one would restart the services
// of all, and none of these programs connects to them.
func (b *build) noProxy() []string {
	out := []string{"localhost", "127.0.0.1"}
	add := func(s string) {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if b.in.APIServer != "" {
		if u, err := url.Parse(b.in.APIServer); err == nil {
			add(u.Hostname())
		}
		add(b.in.PodCIDR)
		add(b.in.ServiceCIDR)
		add(".svc")
		add("." + b.in.DNSDomain)
		add(b.in.Node)
		for _, address := range b.addresses() {
			add(address)
		}
	}
	for _, s := range b.in.Settings.Proxy.NoProxy {
		add(s)
	}
	return out
}
