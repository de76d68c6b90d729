package kinds_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// TestFormerSettings: what a plan names no more goes once, what it never noted and what
// another plan of the machine has stays.
func TestFormerSettings(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	value := func(name string) *kinds.Registry {
		return &kinds.Registry{Key: `HKLM\SOFTWARE\Test`, Name: name, RegistryValue: host.RegistryValue{Type: "dword",
			Number: 1}}
	}
	plan := func(plan string, names ...string) []steps.Spec {
		f := &kinds.FormerSettings{Plan: plan}
		out := []steps.Spec{{}}
		for _, n := range names {
			f.Keys = append(f.Keys, kinds.Makes(stepstest.Spec("registry", "s", value(n)), "windows").Key)
			out = append(out, stepstest.Spec("registry", n, value(n)))
		}
		out[0] = stepstest.Spec("former_settings", "former", f)
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
	// of a step, not of a setting
	stepstest.Applied(t, h, stepstest.Memory{}, []steps.Spec{stepstest.Spec("registry", "d", value("d"))})
	stepstest.Applied(t, h, stepstest.Memory{}, plan("one", "a", "b"))
	stepstest.Applied(t, h, stepstest.Memory{}, plan("two", "b", "c"))
	there("a", "b", "c", "d")
	stepstest.Applied(t, h, stepstest.Memory{}, plan("one"))
	there("b", "c", "d")
	stepstest.Settled(t, h, stepstest.Memory{}, plan("one"))

	// Set by hand since: it is no more the plan's.
	stepstest.Must(t, h.SetRegistryValue(t.Context(), `HKLM\SOFTWARE\Test`, "a",
		host.RegistryValue{Type: "dword", Number: 5}))
	stepstest.Settled(t, h, stepstest.Memory{}, plan("one"))
	there("a", "b", "c", "d")

	// Given again, what it puts back is what was there.
	stepstest.Applied(t, h, stepstest.Memory{}, plan("one", "a"))
	stepstest.Applied(t, h, stepstest.Memory{}, plan("one"))
	if v, err := h.RegistryValue(t.Context(), `HKLM\SOFTWARE\Test`, "a"); err != nil || v.Number != 5 {
		t.Errorf("value a: %v, %v", v, err)
	}
}
