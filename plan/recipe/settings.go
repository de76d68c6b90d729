package recipe

import (
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// Settings are what a plan says of the machine itself, besides the node on it.
type Settings struct {
	Proxy    *Proxy // nil = none
	Firewall Firewall
	Services Services
	CSIProxy *CSIProxy // nil = none
	Exporter *Exporter // nil = none
	Reboot   *Reboot   // nil = nothing of it is said
	// Steps are those settings that are a state by themselves: files, registry values.
	Steps []Setting
}

// Setting is one step that does not depend on the node.
type Setting struct {
	ID, Title string
	Kind      string
	Args      any    // argument struct of the kind
	Source    string // "plan.join.hcl:12,3"
}

// Reboot says whether a machine may be rebooted for what counts after it only.
type Reboot struct {
	Policy  string   // of steps.Reboot; "" = never
	Windows []string // of steps.Reboot
	Source  string
}

// Proxy is the way of the machine and of its programs to the outside.
type Proxy struct {
	HTTP, HTTPS string   // URLs; "" = none
	NoProxy     []string // besides what every node of the cluster needs
	Sensitive   bool     // the URLs are never shown
	Addresses   []string // HOST:PORT of those whose value is no secret
	Source      string
}

// Firewall is what a plan says of the rules of a node.
type Firewall struct {
	Off    bool     // no rule is made
	Remote []string // addresses and networks that the node's own rules are for; empty = any
	Rules  []FirewallRule
}

// FirewallRule lets packets to the machine in.
type FirewallRule struct {
	Name, Protocol, Ports string
	Remote                []string
	Source                string
}

// SettingSteps are the steps of the settings alone, for a node that joins no cluster.
func SettingSteps(in Input) []steps.Spec {
	b := &build{in: in}
	b.settings()
	return b.specs
}

// settings adds the steps of the settings. They come before every service and every
// artifact, which add sees to: services read the environment and files when they
// start, and the machine fetches through the proxy.
func (b *build) settings(after ...string) {
	b.before = map[string]bool{}
	first := len(b.specs)
	if b.in.Cluster != "" {
		b.add(formerSettings, formerSettings, "Settings that the plan names no more are as before", &steps.FormerSettings{}, after...)
		after = append(slices.Clone(after), formerSettings)
	}
	rebooted := b.rebootFirst(after...)
	for _, s := range b.in.Settings.Steps {
		if s.Kind == "feature" {
			b.setting(s, rebooted...)
		} else {
			b.setting(s, after...)
		}
	}
	b.proxyEnvironment(after...)
	for _, r := range b.in.Settings.Firewall.Rules {
		b.setting(firewallSetting(r), after...)
	}
	if b.in.Cluster != "" {
		b.specs[first].Args = steps.MustArgs(&steps.FormerSettings{Plan: b.in.Cluster, Keys: b.claimed})
	}
	b.reboot(first, after...)
	for _, s := range b.specs[first:] {
		if s.ID != formerSettings { // no service reads what is gone
			b.before[s.ID] = true
		}
	}
}

// rebootFirst adds the reboot that Windows waits for already, before the features that it
// may refuse until then, where the plan lets nodejoin make it. Elsewhere that is a finding of
// the preflight. It gives what features come after.
func (b *build) rebootFirst(after ...string) []string {
	names := b.features()
	if len(names) == 0 || !b.reboots() {
		return after
	}
	r := b.in.Settings.Reboot
	b.add("reboot_first", "reboot", "The reboot that Windows waits for already", &steps.Reboot{Policy: r.Policy, Windows: r.Windows, FeaturesAfter: names}, after...).Source = r.Source
	return []string{"reboot_first"}
}

// reboots tells whether nodejoin may reboot the machine, now or at a time of the plan.
func (b *build) reboots() bool {
	r := b.in.Settings.Reboot
	return r != nil && (r.Policy == steps.RebootAuto || r.Policy == steps.RebootWindow)
}

// features are those of Windows that the plan turns on.
func (b *build) features() (names []string) {
	for _, s := range b.in.Settings.Steps {
		if f, ok := s.Args.(*steps.Feature); ok {
			names = append(names, f.Name)
		}
	}
	return names
}

// reboot adds the one reboot for all settings, behind them. A plan that says nothing of
// reboots gets the step only where a feature may need one to work, or a name to count.
func (b *build) reboot(first int, after ...string) {
	args, source := steps.Reboot{Features: b.features()}, ""
	for _, s := range b.in.Settings.Steps {
		if s.Kind == "feature" {
			source = s.Source
		}
	}
	if n := b.named(); n != nil && b.in.OS == "windows" {
		args.HostName, source = n.Args.(*steps.HostName).Name, n.Source
	}
	if r := b.in.Settings.Reboot; r != nil {
		args.Policy, args.Windows, source = r.Policy, r.Windows, r.Source
	} else if len(args.Features) == 0 && args.HostName == "" {
		return
	}
	for _, s := range b.specs[first:] {
		after = append(after, s.ID)
	}
	b.add("reboot", "reboot", "One reboot for what counts after it only", &args, after...).Source = source
}

// HostName is the machine's own name.
func HostName(name, os string) []Setting {
	title := "Host name " + name
	if os == "windows" {
		title += afterBoot
	}
	return []Setting{{ID: "host_name", Title: title, Kind: "host_name", Args: &steps.HostName{Name: name}}}
}

// named is the setting of the machine's name, nil where the plan gives none.
func (b *build) named() *Setting {
	i := slices.IndexFunc(b.in.Settings.Steps, func(s Setting) bool { return s.Kind == "host_name" })
	if i < 0 {
		return nil
	}
	return &b.in.Settings.Steps[i]
}

// formerSettings is the step, and its kind, that undoes what a plan no longer names.
const formerSettings = "former_settings"

func (b *build) setting(s Setting, after ...string) {
	if key := steps.SettingKey(b.in.OS, s.Args); key != (record.Key{}) {
		b.claimed = append(b.claimed, key)
	}
	b.add(s.ID, s.Kind, s.Title, s.Args, after...).Source = s.Source
}

// FirewallID is the id of the step of a rule.
func FirewallID(name string) string { return "allow_" + name }

func firewallSetting(r FirewallRule) Setting {
	return Setting{ID: FirewallID(r.Name), Kind: "firewall_rule", Title: fmt.Sprintf("Firewall: %s/%s in", r.Ports, r.Protocol), Source: r.Source,
		Args: &steps.FirewallRule{FirewallRule: host.FirewallRule{Name: "nodejoin-" + r.Name, DisplayName: r.Name,
			Description: "Managed by nodejoin", Direction: "in", Action: "allow", Protocol: r.Protocol, Ports: r.Ports, Enabled: true, Remote: strings.Join(r.Remote, ",")}}}
}

// TrustedCAs are authorities that the machine trusts: certificates in PEM, one or more
// in a text.
func TrustedCAs(texts []string) []Setting {
	var out []Setting
	for _, text := range texts {
		list, err := steps.Authorities(text)
		if err != nil {
			continue // the plan says so
		}
		for _, ca := range list {
			out = append(out, Setting{ID: fmt.Sprintf("trusted_ca_%d", len(out)+1), Title: "Trusted authority " + ca.Subject.String(), Kind: "trusted_ca",
				Args: &steps.TrustedCA{Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}))}})
		}
	}
	return out
}

// proxied are the services that talk to the outside: the runtime pulls images, the
// kubelet asks credential providers for registries. flanneld and kube-proxy talk to
// the API server only.
var proxied = []string{"containerd", "docker", "kubelet"}

// variable is one of the environment.
type variable struct{ name, value string }

// proxyVariables are those of the proxy, as Go programs, curl and others read them.
func (b *build) proxyVariables() []variable {
	p := b.in.Settings.Proxy
	if p == nil {
		return nil
	}
	var out []variable
	for _, v := range []variable{{"HTTP_PROXY", p.HTTP}, {"HTTPS_PROXY", p.HTTPS}, {"NO_PROXY", strings.Join(b.noProxy(), ",")}} {
		if v.value != "" {
			out = append(out, v)
		}
	}
	return out
}

// proxyAddresses are those that the machine must reach.
func (b *build) proxyAddresses() []string {
	if b.in.Settings.Proxy == nil {
		return nil
	}
	return b.in.Settings.Proxy.Addresses
}

// noProxy lists what must not go through the proxy: this machine, the API server,
// the networks and names of the cluster, then what the plan adds. Other nodes are
// not in it: each new one would restart the services of all, and none of these
// programs talks to them.
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

// proxyEnvironment sets the variables for the whole machine. Linux programs read
// them in lower case, too.
func (b *build) proxyEnvironment(after ...string) {
	p := b.in.Settings.Proxy
	for _, v := range b.proxyVariables() {
		args := steps.MachineEnv{Name: v.name, Value: v.value, Sensitive: p.Sensitive && v.name != "NO_PROXY"}
		title := "Proxy: " + v.name
		b.setting(Setting{ID: strings.ToLower(v.name), Kind: "env", Title: title, Args: &args, Source: p.Source}, after...)
		if b.in.OS != "windows" {
			low := args
			low.Name = strings.ToLower(v.name)
			b.setting(Setting{ID: strings.ToLower(v.name) + "_lower", Kind: "env", Title: "Proxy: " + low.Name, Args: &low, Source: p.Source}, after...)
		}
	}
}

// withSettings completes a service: what happens when it fails, and the proxy, where it
// talks to the outside.
func (b *build) withSettings(s *steps.Service) *steps.Service {
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

// leave notes a step that the settings leave out.
func (b *build) leave(id string) {
	if b.left == nil {
		b.left = map[string]bool{}
	}
	b.left[id] = true
}
