package kinds_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// TestStoppedDependent: a service on which another one depends is unregistered after that one, or after the step that
// removes the dependency, also if an interrupted run has stopped the other one: a stopped dependent counts, too.
func TestStoppedDependent(t *testing.T) {
	exe := stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\app.exe`, Content: "stand-in"})
	service := func(name string, dependsOn ...string) steps.Spec {
		s := stepstest.Service(name, `C:\k\app.exe`)
		s.DependsOn = dependsOn
		return stepstest.Spec("service", name, s)
	}
	both := []steps.Spec{exe, service("worker"), service("app", "worker")}
	for _, c := range []struct {
		name string
		to   []steps.Spec
	}{
		{"its dependent stays", []steps.Spec{exe, service("app")}},
		{"both go", []steps.Spec{exe}},
		{"the machine leaves", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := openBox(t, "windows")
			// The dependency is created last, so the order of the claims is the opposite.
			for _, list := range [][]steps.Spec{both, {exe, service("app")}, both} {
				_, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", list)
				stepstest.Must(t, err)
			}
			stepstest.Must(t, h.StopService(t.Context(), "app"))
			if c.to == nil {
				stepstest.Must(t, left(t, h))
			} else {
				_, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", c.to)
				stepstest.Must(t, err)
			}
			if _, err := h.Service(t.Context(), "worker"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("worker is there: %v", err)
			}
			if app, err := h.Service(t.Context(), "app"); len(c.to) == 2 && (err != nil || app.PID == 0) {
				t.Errorf("app does not run: %+v, %v", app, err)
			}
		})
	}
}

// A service that somebody changed stays, and so does the service that it depends on: neither is stopped.
func TestDependentThatWasChanged(t *testing.T) {
	for _, running := range []bool{true, false} {
		h := openBox(t, "windows")
		exe := stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\app.exe`, Content: "stand-in"})
		app := stepstest.Service("app", `C:\k\app.exe`)
		app.DependsOn = []string{"worker"}
		_, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", []steps.Spec{exe,
			stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\app.exe`)),
			stepstest.Spec("service", "app", app)})
		stepstest.Must(t, err)
		svc, err := h.Service(t.Context(), "app")
		stepstest.Must(t, err)
		svc.Command = append(svc.Command, "--theirs")
		stepstest.Must(t, h.UpdateService(t.Context(), svc.ServiceConfig))
		if !running {
			stepstest.Must(t, h.StopService(t.Context(), "app"))
		}
		found, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", []steps.Spec{exe})
		stepstest.Must(t, err)
		var left []string
		for _, i := range found.Removals.Items {
			left = append(left, i.Key.Name+": "+i.Left)
		}
		want := []string{"app: it was changed since nodejoin made it; --prune-changed removes it",
			"worker: service app stays and depends on it"}
		if d := cmp.Diff(want, left); d != "" {
			t.Errorf("running %v: what stays (-want +have):\n%s", running, d)
		}
		for name, runs := range map[string]bool{"worker": true, "app": running} {
			if svc, err := h.Service(t.Context(), name); err != nil || svc.PID != 0 != runs {
				t.Errorf("running %v: %s: %+v, %v", running, name, svc, err)
			}
		}
	}
}
