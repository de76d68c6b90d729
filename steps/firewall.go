package steps

import "nodejoin/steps/host"

var firewallRuleKind = Kind{Name: "firewall_rule", Place: OnHost, Doc: "a rule of the Windows Firewall",
	New: func() any { return &FirewallRule{} }}

// FirewallRule is a firewall rule by its unique name.
type FirewallRule struct {
	host.FirewallRule
	Absent bool `json:"absent,omitempty" doc:"the rule must not exist"`
}
