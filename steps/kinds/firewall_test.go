package kinds_test

import (
	"context"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// forwarded is a machine behind a router that forwards another port to its sshd.
type forwarded struct{ host.Host }

func (f forwarded) Listeners(ctx context.Context) ([]host.Listener, error) {
	svc, err := f.Service(ctx, "sshd")
	return []host.Listener{{Protocol: "tcp", Port: 5985, PID: 4}, {Protocol: "tcp", Port: 22, PID: svc.PID},
		{Protocol: "udp", Port: 23, PID: svc.PID}}, err
}

// TestFirewallRuleOfListener: a rule for a port also admits the ports on which the service behind it listens.
func TestFirewallRuleOfListener(t *testing.T) {
	for _, c := range []struct {
		ports, listener, want string
	}{
		{"2222", "sshd", "2222,22"},
		{"22", "sshd", "22"},
		{"2222", "absent", "2222"},
		{"2222", "", "2222"},
		{"", "sshd", ""},
	} {
		h := stepstest.OpenHost(t, "windows")
		stepstest.Must(t, h.WriteFile(t.Context(), `C:\sshd.exe`, strings.NewReader("sshd"), host.WriteOptions{}))
		stepstest.Must(t, h.CreateService(t.Context(), host.ServiceConfig{Name: "sshd", Command: []string{`C:\sshd.exe`},
			Start: host.StartAuto}))
		stepstest.Must(t, h.StartService(t.Context(), "sshd"))
		list := []steps.Spec{stepstest.Spec("firewall_rule", "f", &kinds.FirewallRule{Listener: c.listener,
			FirewallRule: host.FirewallRule{Name: "nodejoin-ssh", Direction: "in", Action: "allow", Protocol: "tcp",
				Ports: c.ports, Enabled: true}})}
		for range 2 { // the second run finds nothing to do
			if r := stepstest.Apply(t, forwarded{h}, stepstest.Memory{}, list); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if have, err := h.FirewallRule(t.Context(), "nodejoin-ssh"); err != nil || have.Ports != c.want {
			t.Errorf("%+v: the rule is for %q, %v", c, have.Ports, err)
		}
	}
	out := stepstest.Spec("firewall_rule", "f", &kinds.FirewallRule{Listener: "sshd", FirewallRule: host.FirewallRule{
		Name: "x", Direction: "out", Action: "allow", Protocol: "tcp", Ports: "1", Enabled: true}})
	r := stepstest.Apply(t, stepstest.OpenHost(t, "windows"), stepstest.Memory{}, []steps.Spec{out})
	if r.Err == nil || !strings.Contains(r.Err.Error(), "listener goes with the direction in") {
		t.Errorf("a rule for outgoing packets: %v", r.Err)
	}
}
