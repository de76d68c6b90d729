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
	if b.in.SSHPort != 0 && b.wayIn(wayInRule) == nil {
		b.winOpen("firewall_ssh", wayInRule, "SSH, for nodejoin", b.in.SSHPort)
	}
	if b.in.WinRMPort != 0 && b.wayIn(wayInWinRM) == nil {
		b.winOpen("firewall_winrm", wayInWinRM, "WinRM, for nodejoin", b.in.WinRMPort)
	}
	if b.in.SSHKey == "" {
		return
	}
	b.add("ssh_server", "ssh_server", "OpenSSH's server, for later runs", &kinds.SSHServer{Key: b.in.SSHKey}, "require")
	if b.wayIn(wayInRule) == nil {
		b.winOpen("firewall_ssh", wayInRule, "SSH, for nodejoin", 22, "ssh_server")
	}
}

// winOpen keeps a port open until the machine leaves.
func (b *build) winOpen(id, name, what string, port int, after ...string) {
	if rule := b.winFirewall(id, name, what, "tcp", fmt.Sprint(port)); rule != nil {
		rule.UntilLeave = true
		rule.After = append(rule.After, after...)
	}
}

// sshService is that of OpenSSH. A router may forward another port to the one at which it listens.
const sshService = "sshd"

// wayInRule is the rule that keeps SSH open, which is also that of a block `allow "ssh"`.
const wayInRule = "nodejoin-ssh"

// wayInWinRM is the rule that keeps WinRM open. Where nodejoin comes over SSH, a rule of the plan for WinRM is not it.
const wayInWinRM = "nodejoin-winrm"

// waysIn are the ids of the steps that keep the ways in open.
func (b *build) waysIn() []string {
	return append(b.wayIn(wayInRule), b.wayIn(wayInWinRM)...)
}

// wayIn returns the id of the step with the rule, if there is one.
func (b *build) wayIn(name string) []string {
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
