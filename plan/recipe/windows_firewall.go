package recipe

import (
	"fmt"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// winWayIn keeps SSH, or WinRM, open for all profiles of the firewall. The first network of HNS, nodejoin's or that of
// the cluster's CNI, moves the machine's address to a new adapter, and a network that Windows does not know is public;
// the rule that comes with OpenSSH on Windows Server 2025 is not for public networks. A rule of the plan for SSH
// takes its place. A run on the machine itself does not have the step, and must not close the way for the next one
// from elsewhere.
func (b *build) winWayIn() {
	var rule *steps.Spec
	switch {
	case b.wayIn() != nil:
	case b.in.SSHPort != 0:
		rule = b.winFirewall("firewall_ssh", wayInRule, "SSH, for nodejoin", "tcp", fmt.Sprint(b.in.SSHPort))
	case b.in.WinRMPort != 0:
		rule = b.winFirewall("firewall_winrm", wayInWinRM, "WinRM, for nodejoin", "tcp", fmt.Sprint(b.in.WinRMPort))
	}
	if rule != nil {
		rule.UntilLeave = true
	}
}

// sshService is that of OpenSSH. A router may forward another port to the one at which it listens.
const sshService = "sshd"

// wayInRule is the rule that keeps SSH open, which is also that of a block `allow "ssh"`.
const wayInRule = "nodejoin-ssh"

// wayInWinRM is the rule that keeps WinRM open. Where nodejoin comes over SSH, a rule of the plan for WinRM is not it.
const wayInWinRM = "nodejoin-winrm"

// wayIn returns the id of the step that keeps the way in open, if there is one.
func (b *build) wayIn() []string {
	name := wayInRule
	if b.in.WinRMPort != 0 {
		name = wayInWinRM
	}
	for _, s := range b.specs {
		if rule, ok := kinds.As[kinds.FirewallRule](s); ok && rule.Name == name {
			return []string{s.ID}
		}
	}
	return nil
}

// winFirewall admits packets of the cluster; nil if nodejoin does not manage the firewall.
func (b *build) winFirewall(id, name, what, protocol, ports string) *steps.Spec {
	if b.in.Settings.Firewall.Off {
		b.leave(id)
		return nil
	}
	rule := &kinds.FirewallRule{FirewallRule: host.FirewallRule{
		Name: name, DisplayName: what, Description: "Managed by nodejoin", Direction: "in", Action: "allow",
		Protocol: protocol, Ports: ports, Enabled: true,
		Remote: strings.Join(b.in.Settings.Firewall.Remote, ","),
	}}
	if name == wayInRule {
		rule.Listener = sshService
	}
	s := b.add(id, "firewall_rule", fmt.Sprintf("Firewall: %s/%s in", ports, protocol), rule, "require")
	s.Keep = b.in.Settings.Firewall.Keep
	return s
}
