package recipe

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// Settings are a plan's settings of the machine itself, as opposed to the node on it.
type Settings struct {
	Proxy    *Proxy // nil = none
	Firewall Firewall
	Services Services
	CSIProxy *CSIProxy // nil = none
	Exporter *Exporter // nil = none
	Reboot   *Reboot   // nil = the plan does not mention it
	Guard    Guard
	// Steps are the settings that are a state by themselves: files, registry values.
	Steps []Setting
}

// Setting is a step that does not depend on the node.
type Setting struct {
	ID, Title string
	Kind      string
	Args      any    // argument struct of the kind
	Keep      bool   // what it makes stays when the plan no longer has it
	Source    string // "plan.join.hcl:12,3"
}

// Reboot says whether the machine may be rebooted for changes that need it.
type Reboot struct {
	Policy  string   // of steps.Reboot; "" = never
	Windows []string // of steps.Reboot
	Source  string
}

// Proxy is how the machine and its programs reach the outside.
type Proxy struct {
	HTTP, HTTPS string   // URLs; "" = none
	NoProxy     []string // besides what every node of the cluster needs
	Sensitive   bool     // the URLs are never printed
	Addresses   []string // HOST:PORT of URLs that are not secret
	Keep        bool
	Source      string
}

// Firewall is what a plan says about the firewall rules of a node.
type Firewall struct {
	Off    bool     // make no rules
	Keep   bool     // the node's own rules stay when the plan no longer has them
	Remote []string // addresses and networks that the node's own rules admit; empty = any
	Rules  []FirewallRule
}

// FirewallRule admits packets to the machine.
type FirewallRule struct {
	Name, Protocol, Ports string
	Remote                []string
	Keep                  bool
	Source                string
}

// SettingSteps returns the steps of the settings alone, for a machine that joins no cluster.
func SettingSteps(in Input) []steps.Spec {
	b := &build{in: in}
	b.settings()
	return b.specs
}

// settings adds the steps of the settings. They come before every service and artifact, which add takes care
// of: services read the environment and files when they start, and downloads go through the proxy.
func (b *build) settings(after ...string) {
	b.before = map[string]bool{}
	first := len(b.specs)
	rebooted := b.rebootFirst(after...)
	for _, s := range b.in.Settings.Steps {
		if _, ok := s.Args.(*kinds.Feature); ok {
			b.setting(s, rebooted...)
		} else {
			b.setting(s, after...)
		}
	}
	b.proxyEnvironment(after...)
	for _, r := range b.in.Settings.Firewall.Rules {
		b.setting(firewallSetting(r), after...)
	}
	b.reboot(first, after...)
	for _, s := range b.specs[first:] {
		b.before[s.ID] = true
	}
}

// rebootFirst adds a reboot that Windows already has pending before the features that it may refuse until
// then, if the plan allows reboots. Otherwise a pending reboot is a preflight finding. It returns the steps
// that features come after.
func (b *build) rebootFirst(after ...string) []string {
	names := b.features()
	if len(names) == 0 || !b.reboots() {
		return after
	}
	r := b.in.Settings.Reboot
	b.add("reboot_first", "reboot", "The reboot that Windows already has pending",
		&kinds.Reboot{Policy: r.Policy, Windows: r.Windows, FeaturesAfter: names}, after...).Source = r.Source
	return []string{"reboot_first"}
}

// reboots reports whether nodejoin may reboot the machine, immediately or at a time of the plan.
func (b *build) reboots() bool {
	r := b.in.Settings.Reboot
	return r != nil && (r.Policy == kinds.RebootAuto || r.Policy == kinds.RebootWindow)
}

// features adds the Windows features that the plan turns on.
func (b *build) features() (names []string) {
	for _, s := range b.in.Settings.Steps {
		if f, ok := s.Args.(*kinds.Feature); ok {
			names = append(names, f.Name)
		}
	}
	return names
}

// reboot adds one reboot for all settings, after them. If the plan does not mention reboots, the step is
// added only for what counts after a boot, such as a feature.
func (b *build) reboot(first int, after ...string) {
	var args kinds.Reboot
	needed, source := false, ""
	for _, s := range b.in.Settings.Steps {
		if b.in.OS == "windows" && args.Add(s.Args) && !needed {
			needed, source = true, s.Source
		}
	}
	if r := b.in.Settings.Reboot; r != nil {
		args.Policy, args.Windows, source = r.Policy, r.Windows, r.Source
	} else if !needed {
		return
	}
	for _, s := range b.specs[first:] {
		after = append(after, s.ID)
	}
	b.add("reboot", "reboot", "One reboot for all changes that need it", &args, after...).Source = source
}

// setting adds the step of a setting.
func (b *build) setting(s Setting, after ...string) {
	spec := b.add(s.ID, s.Kind, s.Title, s.Args, after...)
	spec.Source, spec.Keep = s.Source, s.Keep
}

// FirewallID returns the id of the step of a rule.
func FirewallID(name string) string { return "allow_" + name }

func firewallSetting(r FirewallRule) Setting {
	return Setting{ID: FirewallID(r.Name), Kind: "firewall_rule",
		Title: fmt.Sprintf("Firewall: %s/%s in", r.Ports, r.Protocol), Keep: r.Keep, Source: r.Source,
		Args: &kinds.FirewallRule{FirewallRule: host.FirewallRule{Name: "nodejoin-" + r.Name, DisplayName: r.Name,
			Description: "Managed by nodejoin", Direction: "in", Action: "allow", Protocol: r.Protocol, Ports: r.Ports,
			Enabled: true, Remote: strings.Join(r.Remote, ",")}}}
}

// proxied are the services that connect to the outside: the runtime pulls images, the kubelet asks credential
// providers for registries. flanneld and kube-proxy connect to the API server only.
var proxied = []string{"containerd", "docker", "kubelet"}

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

// proxyEnvironment sets the variables for the whole machine. On Linux, programs also read the lower-case
// names.
func (b *build) proxyEnvironment(after ...string) {
	p := b.in.Settings.Proxy
	for _, v := range b.proxyVariables() {
		args := kinds.MachineEnv{Name: v.name, Value: v.value, Sensitive: p.Sensitive && v.name != "NO_PROXY"}
		title := "Proxy: " + v.name
		set := Setting{ID: strings.ToLower(v.name), Kind: "env", Title: title, Args: &args, Keep: p.Keep, Source: p.Source}
		b.setting(set, after...)
		if b.in.OS != "windows" {
			low := args
			low.Name = strings.ToLower(v.name)
			set.ID, set.Title, set.Args = set.ID+"_lower", "Proxy: "+low.Name, &low
			b.setting(set, after...)
		}
	}
}

// withSettings completes a service with its recovery settings and, if it connects to the outside, with the
// proxy.
func (b *build) withSettings(s *kinds.Service) *kinds.Service {
	s = b.in.Settings.Services.recovery(s)
	p := b.in.Settings.Proxy
	if p == nil || !slices.Contains(proxied, s.Name) {
		return s
	}
	out := *s
	out.Environment = slices.Clone(s.Environment)
	for _, v := range b.proxyVariables() {
		out.Environment = append(out.Environment, v.name+"="+v.value)
		if p.Sensitive && v.name != "NO_PROXY" {
			out.SensitiveEnvironment = append(out.SensitiveEnvironment, v.name)
		}
	}
	slices.Sort(out.Environment)
	return &out
}

// leave records a step that the settings skip.
func (b *build) leave(id string) {
	if b.left == nil {
		b.left = map[string]bool{}
	}
	b.left[id] = true
}
