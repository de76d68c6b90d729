package recipe

import (
	"fmt"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

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
	rule := &kinds.FirewallRule{FirewallRule: host.FirewallRule{Name: "nodejoin-" + r.Name, DisplayName: r.Name,
		Description: "Managed by nodejoin", Direction: "in", Action: "allow", Protocol: r.Protocol, Ports: r.Ports,
		Enabled: true, Remote: strings.Join(r.Remote, ",")}}
	if rule.Name == wayInRule && rule.Protocol == "tcp" {
		rule.Listener = sshService
	}
	return Setting{ID: FirewallID(r.Name), Kind: "firewall_rule",
		Title: fmt.Sprintf("Firewall: %s/%s in", r.Ports, r.Protocol), Keep: r.Keep, Source: r.Source, Args: rule}
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
