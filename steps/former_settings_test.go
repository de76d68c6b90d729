package steps_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// TestFormerSettings: what a plan names no more goes once, what it never noted and what
// another plan of the machine has stays.
func TestFormerSettings(t *testing.T) {
	h := openHost(t, "windows")
	value := func(name string) *steps.Registry {
		return &steps.Registry{Key: `HKLM\SOFTWARE\Test`, Name: name, RegistryValue: host.RegistryValue{Type: "dword", Number: 1}}
	}
	plan := func(plan string, names ...string) []steps.Spec {
		f := &steps.FormerSettings{Plan: plan}
		out := []steps.Spec{{}}
		for _, n := range names {
			f.Keys = append(f.Keys, steps.MakesOf(spec("registry", "s", value(n)), "windows").Key)
			out = append(out, spec("registry", n, value(n)))
		}
		out[0] = spec("former_settings", "former", f)
		return out
	}
	there := func(want ...string) {
		t.Helper()
		for _, name := range []string{"a", "b", "c", "d"} {
			_, err := h.RegistryValue(t.Context(), `HKLM\SOFTWARE\Test`, name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if wanted := slices.Contains(want, name); wanted != (err == nil) {
				t.Errorf("value %s is there: %v, want %v", name, err == nil, wanted)
			}
		}
	}
	applied(t, h, memory{}, []steps.Spec{spec("registry", "d", value("d"))}) // of a step, not of a setting
	applied(t, h, memory{}, plan("one", "a", "b"))
	applied(t, h, memory{}, plan("two", "b", "c"))
	there("a", "b", "c", "d")
	applied(t, h, memory{}, plan("one"))
	there("b", "c", "d")
	settled(t, h, memory{}, plan("one"))

	// Set by hand since: it is no more the plan's.
	must(t, h.SetRegistryValue(t.Context(), `HKLM\SOFTWARE\Test`, "a", host.RegistryValue{Type: "dword", Number: 5}))
	settled(t, h, memory{}, plan("one"))
	there("a", "b", "c", "d")

	// Given again, what it puts back is what was there.
	applied(t, h, memory{}, plan("one", "a"))
	applied(t, h, memory{}, plan("one"))
	if v, err := h.RegistryValue(t.Context(), `HKLM\SOFTWARE\Test`, "a"); err != nil || v.Number != 5 {
		t.Errorf("value a: %v, %v", v, err)
	}
}
