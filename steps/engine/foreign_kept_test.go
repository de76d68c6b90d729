package engine_test

import (
	"strings"
	"testing"

	"nodejoin/steps/host"
)

// What the plan no longer names and somebody has changed since stays as they left it, and the plan names it with
// the reason; the rest goes.
func TestChangedByOthersStays(t *testing.T) {
	w := newWorld(t)
	from := planOf("windows", "motd")
	for i, p := range from.parts {
		if p.dimension == "rule" || p.dimension == "registry" || p.dimension == "env" {
			from.parts[i] = dimensions("windows")[p.dimension][1]
		}
	}
	if err := w.applied(from); err != nil {
		t.Fatal(err)
	}
	h, _ := w.box()
	rule, err := h.FirewallRule(t.Context(), "site")
	if err != nil {
		t.Fatal(err)
	}
	rule.Ports = "7"
	for _, err := range []error{
		h.WriteFile(t.Context(), `C:\site\motd`, strings.NewReader("theirs"), host.WriteOptions{}),
		h.PutFirewallRule(t.Context(), rule),
		h.SetRegistryValue(t.Context(), `HKLM\SOFTWARE\Site\Deep`, "A", host.RegistryValue{Type: "dword", Number: 7}),
		h.SetMachineEnv(t.Context(), "SITE", "theirs"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.write(planOf("windows"))
	named := map[string]string{}
	for _, i := range w.check().Hosts[0].Removals.Items {
		named[i.Key.String()] = i.Left
	}
	for _, key := range []string{`file:C:\site\motd`, "firewall_rule:site", "env:SITE",
		`registry:HKLM\SOFTWARE\Site\Deep\A`} {
		if !strings.Contains(named[key], "changed since") {
			t.Errorf("%s stays for the reason %q; all: %q", key, named[key], named)
		}
	}
	if err := w.applied(planOf("windows")); err != nil {
		t.Fatal(err)
	}
	if text := w.read(`C:\site\motd`); text != "theirs" {
		t.Errorf("the file is %q", text)
	}
	if now, err := h.FirewallRule(t.Context(), "site"); err != nil || now.Ports != "7" {
		t.Errorf("the rule is %+v, %v", now, err)
	}
	if v, err := h.RegistryValue(t.Context(), `HKLM\SOFTWARE\Site\Deep`, "A"); err != nil || v.Number != 7 {
		t.Errorf("the value is %+v, %v", v, err)
	}
	if v, err := h.MachineEnv(t.Context(), "SITE"); err != nil || v != "theirs" {
		t.Errorf("the variable is %q, %v", v, err)
	}
}
