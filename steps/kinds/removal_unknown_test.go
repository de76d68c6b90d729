package kinds_test

import (
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// A step whose name is not known yet may make anything of its sort, so nothing of that sort is removed. Its other
// arguments do not matter, and neither does it for other sorts.
func TestUnknownIsNotGone(t *testing.T) {
	later := steps.Ref("vip.address")
	port := func(name, ports string) steps.Spec {
		return stepstest.Spec("firewall_rule", "rule", &kinds.FirewallRule{FirewallRule: host.FirewallRule{Name: name,
			Direction: "in", Action: "allow", Protocol: "tcp", Ports: ports, Enabled: true}})
	}
	file := func(path, text string) steps.Spec {
		return stepstest.Spec("file", "conf", &kinds.File{Path: path, Content: text})
	}
	service := func(name, exe string) steps.Spec {
		s := stepstest.Service(name, exe)
		s.State = host.ServiceStopped
		return stepstest.Spec("service", "app", s)
	}
	first := []steps.Spec{file(`C:\a\x.conf`, "x"), value("v", 1), port("rule", "80"), service("app", `C:\app.exe`)}
	for _, c := range []struct {
		name  string
		next  []steps.Spec
		stays string // prefix; the others go
	}{
		{"a path", []steps.Spec{file(`C:\`+later+`\x.conf`, "x")}, "file"},
		{"a content", []steps.Spec{file(`C:\b\x.conf`, later)}, ""},
		{"a registry key", []steps.Spec{stepstest.Spec("registry", "v", &kinds.Registry{Key: `HKLM\SOFTWARE\` + later,
			Name: "v", RegistryValue: host.RegistryValue{Type: "dword", Number: 1}})}, "registry"},
		{"a rule", []steps.Spec{port(later, "80")}, "firewall_rule"},
		{"the ports of a rule", []steps.Spec{port("other", later)}, ""},
		{"a service", []steps.Spec{service("s-"+later, `C:\app.exe`)}, "service"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := stepstest.OpenHost(t, "windows")
			stepstest.Put(t, h, `C:\app.exe`, "app")
			_, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", first)
			stepstest.Must(t, err)
			x := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {})
			reply, err := x.Check(t.Context(), executor.Request{Node: "n", Plan: "p", Whole: true, Steps: c.next})
			stepstest.Must(t, err)
			going := map[string]bool{}
			for _, r := range reply.Removals.Removing() {
				going[string(r.Key.Prefix)] = true
			}
			for _, prefix := range []string{"file", "registry", "firewall_rule", "service"} {
				if going[prefix] == (prefix == c.stays) {
					t.Errorf("%s goes: %v", prefix, going[prefix])
				}
			}
		})
	}
}

// A step that cannot be decoded is an error of the check and of the removal, and nothing is removed.
func TestUnreadableStepRemovesNothing(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	_, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", []steps.Spec{value("a", 1), value("b", 1)})
	stepstest.Must(t, err)
	before := stepstest.LoadRecord(t, h)
	for _, bad := range []steps.Spec{{ID: "x", Kind: "no_such_kind", Args: steps.RawArgs([]byte("{}"))},
		{ID: "x", Kind: "registry", Args: steps.RawArgs([]byte(`{"key": 5}`))}} {
		x := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {})
		req := executor.Request{Node: "n", Plan: "p", Whole: true, Steps: []steps.Spec{value("a", 1), bad}}
		if reply, err := x.Check(t.Context(), req); err == nil {
			t.Errorf("the check finds %+v", reply.Removals)
		}
		if reply, err := x.Remove(t.Context(), executor.RemoveRequest{Request: req}); err == nil || reply.Mutations > 0 {
			t.Errorf("the removal: %+v, %v", reply, err)
		}
	}
	if after := stepstest.LoadRecord(t, h); len(after.Claims) != len(before.Claims) {
		t.Errorf("claims before %v, after %v", before.Claims, after.Claims)
	}
}
