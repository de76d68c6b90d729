package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

// says replaces the host block in the plan's profile.
func (w *world) says(text string) {
	w.t.Helper()
	w.edit(`(?m)^  os     = "windows"\n(  host \{[^}]*\}\n)?`, "  os     = \"windows\"\n  host {\n"+text+"\n  }\n")
}

// pendingReboot checks that the run of the one host ended with a pending reboot.
func (w *world) pendingReboot(sum *engine.Summary, why string) engine.HostSummary {
	w.t.Helper()
	h := sum.Hosts[0]
	if se := (*steps.Error)(nil); !errors.As(h.Err, &se) || se.Code != steps.CodeReboot || !strings.Contains(se.Detail,
		why) || h.Rollback != nil {
		w.t.Fatalf("failed at %q: %v; want a pending reboot: %s", h.Failed, h.Err, why)
	}
	return h
}

func (w *world) bootTime() time.Time {
	w.t.Helper()
	h, _ := w.box()
	f, err := h.Facts(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return f.BootTime
}

// TestRebootForFeature: a machine without the feature Containers joins in one run, with one reboot for everything that
// needs one, before the services that need it.
func TestRebootForFeature(t *testing.T) {
	w := newWorld(t)
	w.one = true
	h, _ := w.box()
	if err := h.WithoutContainers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.check(); refusal(t, r) == nil {
		t.Fatal("the machine is not refused without the feature")
	}
	w.says(`features = ["Containers"]
	page_file = 8096
	reboot = "auto"`)
	if r := w.check(); r.Hosts[0].Interruption != nil {
		t.Errorf("a machine without a Node is interrupted: %+v", r.Hosts[0].Interruption)
	}
	before := w.bootTime()
	reboots := 0
	w.heard = func(e event.Event) {
		if d, ok := e.(event.StepDone); ok && d.Step == "reboot" && d.Result == "changed" {
			reboots++
		}
	}
	sum := w.mustConverge()
	changed := sum.Hosts[0].Changed
	if at := slices.Index(changed, "reboot"); reboots != 1 || !w.bootTime().After(before) ||
		at < slices.Index(changed, "feature_containers") ||
		at < slices.Index(changed, "page_file") || at > slices.Index(changed, "containerd_files") {
		t.Errorf("%d reboots, in %v", reboots, changed)
	}
	if f, err := h.Feature(t.Context(), "Containers"); err != nil || f != host.FeatureOn {
		t.Errorf("the feature is %q, %v", f, err)
	}
	w.wantJoined("win-1")
	w.mustBeQuiet()
}

// TestRebootByHand: if the plan does not allow a necessary reboot, the run ends before the steps that need it. After a
// manual reboot the next run continues. Nothing is rolled back, because this is not a failure.
func TestRebootByHand(t *testing.T) {
	night, noon := time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, says, why string
		byHand          bool
	}{
		{"never", `features = ["Containers"]
	reboot = "never"`, "the plan does not let nodejoin reboot it", true},
		{"nothing said", `features = ["Containers"]`, "the plan does not let nodejoin reboot it", true},
		{"window", `features = ["Containers"]
	reboot = "window"
	reboot_times = ["Sat,Sun 22:00-04:00"]`,
			"it is Sun 12:00, and the plan lets it reboot at Sat,Sun 22:00-04:00 only", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.one, w.now = true, func() time.Time { return noon }
			h, _ := w.box()
			if err := h.WithoutContainers(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.says(c.says)
			w.edit(`(?m)^  name     = each.key`, "  name     = each.key\n  on_failure = \"rollback\"")
			before := w.bootTime()
			for range 2 { // a second run ends in the same way
				_, sum := w.apply(-1)
				res := w.pendingReboot(sum, c.why)
				if res.Failed != "reboot" || !slices.Contains(res.NotRun, "containerd_files") ||
					slices.Contains(res.NotRun, "feature_containers") {
					t.Errorf("failed at %q, not run: %v", res.Failed, res.NotRun)
				}
			}
			if f, err := h.Feature(t.Context(), "Containers"); err != nil || f != host.FeatureOnPending ||
				!w.bootTime().Equal(before) {
				t.Errorf("the feature is %q, %v; booted %v, before %v", f, err, w.bootTime(), before)
			}
			if c.byHand {
				if err := h.Reboot(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				w.now = func() time.Time { return night }
			}
			w.mustConverge()
			w.wantJoined("win-1")
			w.mustBeQuiet()
		})
	}
}

// TestRebootBeforeFeature: Windows may refuse features while a reboot is pending. If the plan allows it, nodejoin
// reboots first; otherwise nothing is changed until somebody reboots the machine or the plan says that the reboot does
// not matter.
func TestRebootBeforeFeature(t *testing.T) {
	const pending = `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending`
	waiting := func(t *testing.T) (*world, *sandbox.Host) {
		w := newWorld(t)
		w.one = true
		h, _ := w.box()
		if err := errors.Join(h.WithoutContainers(t.Context()), h.SetRegistryValue(t.Context(), pending, "x",
			host.RegistryValue{Type: "dword", Number: 1})); err != nil {
			t.Fatal(err)
		}
		return w, h
	}
	t.Run("auto", func(t *testing.T) {
		w, _ := waiting(t)
		w.says(`features = ["Containers"]
	reboot = "auto"`)
		sum := w.mustConverge()
		var order []string
		for _, id := range sum.Hosts[0].Changed {
			if strings.HasPrefix(id, "reboot") || id == "feature_containers" || id == "containerd_files" {
				order = append(order, id)
			}
		}
		if want := []string{"reboot_first", "feature_containers", "reboot", "containerd_files"}; !slices.Equal(order, want) {
			t.Errorf("have %v, want %v", order, want)
		}
		w.wantJoined("win-1")
		w.mustBeQuiet()
	})
	t.Run("never", func(t *testing.T) {
		w, h := waiting(t)
		w.says(`features = ["Containers"]`)
		if err := refusal(t, w.check()); err == nil || !strings.Contains(err.Error(), "feature-reboot: ") {
			t.Fatalf("not refused: %v", err)
		}
		w.edit(`(?m)^  name     = each.key`, "  name     = each.key\n  waive    = [\"feature-reboot\"]")
		_, sum := w.apply(-1)
		if res := w.pendingReboot(sum, "the plan does not let nodejoin reboot it"); !slices.Contains(res.Changed,
			"feature_containers") {
			t.Errorf("waived, and yet changed %v", res.Changed)
		}
		if err := h.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.mustConverge()
		w.wantJoined("win-1")
	})
}

// joinedWithPods returns a world with a joined node and a pod of a ReplicaSet.
func joinedWithPods(t *testing.T) *world {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	if err := w.cluster().AddPod(t.Context(), "win-1", kube.Pod{Namespace: "d", Name: "web", Controller: "ReplicaSet"},
		""); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestRebootOfReadyNode: a Ready Node is cordoned and drained before its machine reboots, and accepts pods again once
// everything is verified. The plan shows this before.
func TestRebootOfReadyNode(t *testing.T) {
	w := joinedWithPods(t)
	w.says(`page_file = 8096
	reboot = "auto"`)
	i := w.check().Hosts[0].Interruption
	if i == nil || !i.Reboot || !slices.Equal(i.Evict, []string{"d/web"}) {
		t.Fatalf("the interruption is %+v", i)
	}
	var order []string
	w.heard = func(e event.Event) {
		if d, ok := e.(event.StepDone); ok && d.Result == "changed" &&
			slices.Contains([]string{"page_file", "cordon", "drain", "reboot", "boot", "joined"}, d.Step) {
			order = append(order, d.Step)
		}
	}
	before := w.bootTime()
	w.mustConverge()
	if want := "page_file cordon drain reboot boot joined"; strings.Join(order, " ") != want ||
		!w.bootTime().After(before) {
		t.Errorf("have %q, want %q", order, want)
	}
	if pods, err := w.cluster().Pods(t.Context(), "win-1"); err != nil || len(pods) > 0 {
		t.Errorf("pods %v, %v", pods, err)
	}
	w.wantJoined("win-1")
	w.mustBeQuiet()
}

// TestRebootLeft: a setting that takes effect after a reboot does not stop other steps. The pods stay, and each run
// reports the pending reboot until it has happened.
func TestRebootLeft(t *testing.T) {
	w := joinedWithPods(t)
	w.says(`page_file = 8096
	reboot = "never"`)
	w.edit(`was joined by nodejoin`, "has joined")
	r, sum := w.apply(-1)
	res := w.pendingReboot(sum, "for the page file")
	if r.Hosts[0].Interruption != nil || len(res.NotRun) > 0 || !slices.Contains(res.Changed, "motd") ||
		res.Failed != "" {
		t.Errorf("%+v; changed %v, not run %v", r.Hosts[0].Interruption, res.Changed, res.NotRun)
	}
	if pods, err := w.cluster().Pods(t.Context(), "win-1"); err != nil || len(pods) != 1 {
		t.Errorf("pods %v, %v", pods, err)
	}
	w.wantJoined("win-1")
	if _, sum = w.apply(-1); len(w.pendingReboot(sum, "for the page file").Changed) > 0 {
		t.Errorf("changed: %v", sum.Hosts[0].Changed)
	}
	h, _ := w.box()
	if err := h.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mustConverge()
	w.mustBeQuiet()
}

// TestRebootsInTurn: machines whose Nodes serve pods reboot within the limits of the plan's rollout.
func TestRebootsInTurn(t *testing.T) {
	w := newWorld(t)
	w.mustConverge()
	w.says(`page_file = 8096
	reboot = "auto"`)
	w.add("\nrollout { max_unavailable = 1 }\n")
	w.parallel = 4
	out := map[string]bool{}
	most := 0
	w.heard = func(e event.Event) {
		if d, ok := e.(event.StepDone); ok && d.Result == "changed" {
			switch d.Step {
			case "cordon":
				out[d.Host] = true
			case "joined":
				delete(out, d.Host)
			}
			most = max(most, len(out))
		}
	}
	w.mustConverge()
	if most != 1 || len(out) > 0 {
		t.Errorf("%d were out at once, %v is out yet", most, out)
	}
	w.mustBeQuiet()
}
