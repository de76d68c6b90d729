package recipe_test

import (
	"slices"
	"strings"
	"testing"

	"nodejoin/plan/recipe"
	"nodejoin/steps"
)

// TestWayIn: the firewall admits SSH on the port that nodejoin uses, before the first HNS network moves the
// machine's address to an adapter whose network Windows does not know.
func TestWayIn(t *testing.T) {
	for _, placeholder := range []bool{false, true} {
		n := newNode(t, func(in *recipe.Input, _ string) { in.SSHPort, in.Network.Placeholder = 2222, placeholder })
		i := slices.IndexFunc(n.specs, func(s steps.Spec) bool { return s.ID == "firewall_ssh" })
		if i < 0 || !strings.Contains(string(n.specs[i].Args.JSON()), `"name":"nodejoin-ssh"`) ||
			!strings.Contains(string(n.specs[i].Args.JSON()), `"ports":"2222"`) ||
			!strings.Contains(string(n.specs[i].Args.JSON()), `"listener":"sshd"`) || !n.specs[i].UntilLeave {
			t.Fatalf("no rule for SSH: %+v", n.specs)
		}
		for _, s := range n.specs {
			if (s.ID == "flannel_network" || s.ID == "placeholder") && !slices.Contains(s.After, "firewall_ssh") {
				t.Errorf("%s does not come after firewall_ssh: %v", s.ID, s.After)
			}
		}
	}
	none := newNodeIn(t, recipe.Network{Kind: "none"}, func(in *recipe.Input, _ string) { in.SSHPort = 22 })
	if !slices.ContainsFunc(none.specs, func(s steps.Spec) bool { return s.ID == "firewall_ssh" }) {
		t.Error("no rule for SSH if the cluster's CNI makes the first network")
	}
	for kind, want := range map[string]bool{"flannel": true, "none": false} { // whether nodejoin makes the first network
		network := recipe.Network{Kind: kind}
		if kind == "flannel" {
			network = recipe.Network{Kind: kind, Version: "0.28.9", Backend: "host-gw"}
		}
		n := newNodeIn(t, network, func(in *recipe.Input, _ string) {
			in.SSHPort, in.Settings.Firewall.Off = 22, true
		})
		i := slices.IndexFunc(n.specs, func(s steps.Spec) bool { return s.ID == "require" })
		if have := strings.Contains(string(n.specs[i].Args.JSON()), `"switch":true`); have != want {
			t.Errorf("%s: the preflight expects a switch: %v", kind, have)
		}
	}
	winrm := newNode(t, func(in *recipe.Input, _ string) { in.WinRMPort = 5986 })
	i := slices.IndexFunc(winrm.specs, func(s steps.Spec) bool { return s.ID == "firewall_winrm" })
	if i < 0 || !strings.Contains(string(winrm.specs[i].Args.JSON()), `"name":"nodejoin-winrm"`) ||
		!strings.Contains(string(winrm.specs[i].Args.JSON()), `"ports":"5986"`) || !winrm.specs[i].UntilLeave {
		t.Errorf("no rule for WinRM: %+v", winrm.specs)
	}
	for _, s := range winrm.specs {
		if s.ID == "flannel_network" && !slices.Contains(s.After, "firewall_winrm") {
			t.Errorf("%s does not come after firewall_winrm: %v", s.ID, s.After)
		}
	}
	for _, s := range newNode(t).specs { // nodejoin runs on the machine
		if s.ID == "firewall_ssh" || s.ID == "firewall_winrm" {
			t.Error("a rule for a way in on a machine that nodejoin runs on")
		}
	}
}
