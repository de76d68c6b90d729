package kinds_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

func TestRebootTimes(t *testing.T) {
	at := func(text string) time.Time {
		// 2026-03-01 is a Sunday.
		days := map[string]string{"Sun": "01", "Mon": "02", "Tue": "03", "Fri": "06", "Sat": "07"}
		when, err := time.Parse("2006-01-02 15:04", "2026-03-"+days[text[:3]]+text[3:])
		stepstest.Must(t, err)
		return when
	}
	for _, c := range []struct {
		span, in, out string
	}{
		{"22:00-04:00", "Sun 22:00, Mon 03:59, Fri 00:00", "Sun 21:59, Mon 04:00, Sat 12:00"},
		{"01:00-05:00", "Mon 01:00, Sat 04:59", "Mon 00:59, Mon 05:00"},
		{"Sat,Sun 22:00-04:00", "Sat 22:30, Sun 03:00, Sun 23:00, Mon 03:59", "Fri 23:00, Sat 03:00, Mon 22:30, Tue 01:00"},
		{"Mon-Fri 12:00-13:00", "Mon 12:00, Fri 12:59", "Sat 12:30, Sun 12:30, Mon 13:00"},
		{"Fri-Mon 12:00-13:00", "Fri 12:00, Sat 12:00, Sun 12:00, Mon 12:00", "Tue 12:00"},
	} {
		w, err := kinds.ParseRebootTime(c.span)
		stepstest.Must(t, err)
		for _, x := range []struct {
			list string
			want bool
		}{{c.in, true}, {c.out, false}} {
			for text := range strings.SplitSeq(x.list, ", ") {
				if w.Holds(at(text)) != x.want {
					t.Errorf("%s holds %s: %v", c.span, text, !x.want)
				}
			}
		}
	}
	for _, wrong := range []string{"", "22:00", "Sat", "sat 22:00-04:00", "Sat 22:00-22:00", "Sat 24:00-01:00",
		"Sat, Sun 22:00-04:00", "Sat-22:00-04:00"} {
		if _, err := kinds.ParseRebootTime(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestRebootMay(t *testing.T) {
	night, noon := time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("x", -3600))
	for _, c := range []struct {
		r    kinds.Reboot
		at   time.Time
		want bool
	}{
		{kinds.Reboot{Policy: "auto"}, noon, true}, {kinds.Reboot{}, night, false},
		{kinds.Reboot{Policy: "never"}, night, false},
		{kinds.Reboot{Policy: "window", Windows: []string{"01:00-02:00", "22:00-04:00"}}, night, true},
		{kinds.Reboot{Policy: "window", Windows: []string{"22:00-04:00"}}, noon, false},
	} {
		if ok, why := c.r.May(c.at); ok != c.want || ok != (why == "") {
			t.Errorf("%+v at %s: %v, %q", c.r, c.at, ok, why)
		}
	}
}

// TestRebootIsWanted: what each place reports, whether it counts with a policy, and whether later steps must wait for
// it.
func TestRebootIsWanted(t *testing.T) {
	const windows = `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\`
	one := host.RegistryValue{Type: "dword", Number: 1}
	set := func(key, name string, v host.RegistryValue) func(t *testing.T, h *sandbox.Host) {
		return func(t *testing.T, h *sandbox.Host) { stepstest.Must(t, h.SetRegistryValue(t.Context(), key, name, v)) }
	}
	for _, c := range []struct {
		name, policy, want string
		blocks             bool
		do                 func(t *testing.T, h *sandbox.Host)
	}{
		{"nothing", "auto", "", false, func(*testing.T, *sandbox.Host) {}},
		{"noted", "never", "for the page file", false, func(t *testing.T, h *sandbox.Host) {
			stepstest.Must(t, h.NoteReboot(t.Context(), "the page file"))
		}},
		{"feature", "never", "for the feature Microsoft-Hyper-V", true, func(t *testing.T, h *sandbox.Host) {
			stepstest.Must(t, h.EnableFeature(t.Context(), "Microsoft-Hyper-V"))
		}},
		{"servicing", "auto", "for features or updates of Windows", false,
			set(windows+`Component Based Servicing\RebootPending`, "x", one)},
		{"servicing, never", "never", "", false, set(windows+`Component Based Servicing\RebootPending`, "x", one)},
		{"update", "auto", "for Windows Update", false, set(windows+`WindowsUpdate\Auto Update\RebootRequired`, "x", one)},
		{"update, never", "never", "", false, set(windows+`WindowsUpdate\Auto Update\RebootRequired`, "x", one)},
		{"name", "auto", "for the machine's new name NEW", false,
			set(`HKLM\SYSTEM\CurrentControlSet\Control\ComputerName\ComputerName`, "ComputerName",
				host.RegistryValue{Type: "string", String: "NEW"})},
		{"own name", "auto", "for the machine's new name long-enough-to-be-cut", false, func(t *testing.T, h *sandbox.Host) {
			stepstest.Must(t, h.NoteReboot(t.Context(), "the machine's new name long-enough-to-be-cut"))
			stepstest.Must(t, h.SetHostName(t.Context(), "long-enough-to-be-cut"))
		}},
		{"own name, not noted", "never", "for the machine's new name wanted-1", false,
			func(t *testing.T, h *sandbox.Host) { stepstest.Must(t, h.SetHostName(t.Context(), "WANTED-1")) }},
		{"files", "auto", "", false, set(`HKLM\SYSTEM\CurrentControlSet\Control\Session Manager`,
			"PendingFileRenameOperations", host.RegistryValue{Type: "multi_string", Strings: []string{"a", "b"}})},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := stepstest.OpenHost(t, "windows").(*sandbox.Host)
			c.do(t, h)
			reply, err := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{},
				func(event.Event) {}).Check(t.Context(), executor.Request{Node: "n",
				Steps: []steps.Spec{stepstest.Spec("reboot", "boot",
					&kinds.Reboot{Policy: c.policy, HostName: "wanted-1", Features: []string{"Microsoft-Hyper-V"}})}})
			stepstest.Must(t, err)
			r := reply.Results[0]
			if r.Err != nil || r.Change.Reason != c.want || (c.want == "") != (r.Change.Reboot == nil) ||
				r.Change.Reboot != nil && r.Change.Reboot.Blocks != c.blocks {
				t.Errorf("%+v, %v", r.Change, r.Err)
			}
		})
	}
}

// TestRebootBeforeFeatures: a reboot that Windows waits for is needed while a feature is off that is not itself
// pending, and for nothing else.
func TestRebootBeforeFeatures(t *testing.T) {
	const windows = `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\`
	for _, c := range []struct {
		name, want string
		features   []string
		do         func(t *testing.T, h *sandbox.Host)
	}{
		{"nothing", "", []string{"Microsoft-Hyper-V"}, func(*testing.T, *sandbox.Host) {}},
		{"servicing", "for features or updates of Windows", []string{"Containers", "Microsoft-Hyper-V"},
			func(t *testing.T, h *sandbox.Host) { pends(t, h, windows+`Component Based Servicing\RebootPending`) }},
		{"update", "for Windows Update", []string{"Microsoft-Hyper-V"}, func(t *testing.T, h *sandbox.Host) {
			pends(t, h, windows+`WindowsUpdate\Auto Update\RebootRequired`)
		}},
		{"all are on", "", []string{"Containers"}, func(t *testing.T, h *sandbox.Host) {
			pends(t, h, windows+`WindowsUpdate\Auto Update\RebootRequired`)
		}},
		{"unknown feature", "", []string{"HyperV"}, func(t *testing.T, h *sandbox.Host) {
			pends(t, h, windows+`WindowsUpdate\Auto Update\RebootRequired`)
		}},
		{"noted for something else", "", []string{"Microsoft-Hyper-V"}, func(t *testing.T, h *sandbox.Host) {
			stepstest.Must(t, h.NoteReboot(t.Context(), "the page file"))
		}},
		{"one waits itself", "", []string{"Microsoft-Hyper-V", "Containers"}, func(t *testing.T, h *sandbox.Host) {
			stepstest.Must(t, h.WithoutContainers(t.Context()))
			stepstest.Must(t, h.EnableFeature(t.Context(), "Microsoft-Hyper-V"))
			pends(t, h, windows+`Component Based Servicing\RebootPending`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := stepstest.OpenHost(t, "windows").(*sandbox.Host)
			c.do(t, h)
			check := func() steps.Result {
				reply, err := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{},
					func(event.Event) {}).Check(t.Context(), executor.Request{Node: "n",
					Steps: []steps.Spec{stepstest.Spec("reboot", "boot", &kinds.Reboot{Policy: "never", FeaturesAfter: c.features})}})
				stepstest.Must(t, err)
				return reply.Results[0]
			}
			r := check()
			if r.Err != nil || r.Change.Reason != c.want || (c.want == "") != (r.Change.Reboot == nil) ||
				r.Change.Reboot != nil && !r.Change.Reboot.Blocks {
				t.Errorf("%+v, %v", r.Change, r.Err)
			}
			stepstest.Must(t, h.Reboot(t.Context()))
			if r := check(); r.Err != nil || !r.Change.NoOp() {
				t.Errorf("after a boot: %+v, %v", r.Change, r.Err)
			}
		})
	}
}

// pends makes a registry key say that Windows waits for a reboot.
func pends(t *testing.T, h *sandbox.Host, key string) {
	t.Helper()
	stepstest.Must(t, h.SetRegistryValue(t.Context(), key, "x", host.RegistryValue{Type: "dword", Number: 1}))
}

// TestRebootIsForeseen: a plan shows the reboot, and that later steps wait for it.
func TestRebootIsForeseen(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	list := []steps.Spec{
		stepstest.Spec("feature", "f", &kinds.Feature{Name: "Microsoft-Hyper-V"}),
		stepstest.Spec("registry", "flags", &kinds.Registry{Key: `HKLM\SOFTWARE\nodejoin`, Name: "Flags",
			RegistryValue: host.RegistryValue{Type: "dword", Number: 1}, Reboot: "the flags"}),
		stepstest.Spec("reboot", "boot", &kinds.Reboot{Features: []string{"Microsoft-Hyper-V"}}),
	}
	reply, err := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {}).Check(t.Context(),
		executor.Request{Node: "n", Steps: list})
	stepstest.Must(t, err)
	if c := reply.Results[2].Change; c.Action != steps.ActionReboot ||
		c.Reason != "for the feature Microsoft-Hyper-V, the flags" || !c.Reboot.Blocks {
		t.Errorf("%+v", c)
	}
}

// TestFeatureUnknown: the error names a feature that Windows does not have. A feature whose state cannot be read is
// neither absent nor off.
func TestFeatureUnknown(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	r := stepstest.Apply(t, h, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("feature", "f", &kinds.Feature{Name: "HyperV"})})
	if r.Err == nil || r.Err.Code != steps.CodeInvalid || !strings.Contains(r.Err.Detail, `"HyperV"`) {
		t.Errorf("%+v", r.Err)
	}
	dir := t.TempDir()
	box, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir})
	stepstest.Must(t, err)
	stepstest.Must(t, os.WriteFile(filepath.Join(dir, ".sandbox", "quirks.json"), []byte(`{"unasked":["Feature"]}`),
		0o644))
	r = stepstest.Apply(t, box, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("feature", "f", &kinds.Feature{Name: "Containers"})})
	if r.Err == nil || r.Err.Code == steps.CodeInvalid || !strings.Contains(r.Err.Error(), "cannot be asked") ||
		r.Mutations > 0 {
		t.Errorf("%+v", r.Err)
	}
	if _, err := stepstest.OpenHost(t, "linux").Feature(t.Context(), "Containers"); !errors.Is(err, host.ErrUnsupported) {
		t.Error(err)
	}
}

// TestLeaveTurnsFeatureOff: a feature that was on before stays on.
func TestLeaveTurnsFeatureOff(t *testing.T) {
	h := stepstest.OpenHost(t, "windows").(*sandbox.Host)
	list := []steps.Spec{stepstest.Spec("feature", "a", &kinds.Feature{Name: "Microsoft-Hyper-V"}),
		stepstest.Spec("feature", "b", &kinds.Feature{Name: "Containers"})}
	stepstest.Applied(t, h, stepstest.Memory{}, list)
	stepstest.Must(t, h.Reboot(t.Context()))
	reply, err := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {}).Leave(t.Context(),
		executor.LeaveRequest{Node: "n"})
	stepstest.Must(t, err)
	if reply.Err != nil {
		t.Fatal(reply.Err)
	}
	stepstest.Must(t, h.Reboot(t.Context()))
	for name, want := range map[string]host.FeatureState{"Microsoft-Hyper-V": host.FeatureOff,
		"Containers": host.FeatureOn} {
		if s, err := h.Feature(t.Context(), name); err != nil || s != want {
			t.Errorf("%s is %q, %v", name, s, err)
		}
	}
}

// planned is a machine that somebody else shuts down later.
type planned struct{ host.Host }

func (planned) Reboot(context.Context) error {
	return &host.Error{Op: "reboot", Subject: "the machine", Err: host.ErrShutdownPlanned}
}

// TestRebootPlannedByOthers: a shutdown that somebody else has planned fails the step, and the remedy says what to do.
func TestRebootPlannedByOthers(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Must(t, h.NoteReboot(t.Context(), "the page file"))
	r := stepstest.Apply(t, planned{h}, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("reboot", "r", &kinds.Reboot{Policy: kinds.RebootAuto})})
	if r.Err == nil || !strings.Contains(r.Err.Remedy, "shutdown /a") {
		t.Errorf("%+v", r.Err)
	}
}
