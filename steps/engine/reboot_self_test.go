package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// leaveResume is a Resume that leaves a file and the service that would read it.
func leaveResume(plan.Node, host.Facts) (*engine.Resume, error) {
	const program, file = `C:\resume\resume.exe`, `C:\resume\plan`
	spec := func(id, kind string, args any) steps.Spec {
		return steps.Spec{ID: id, Kind: kind, Args: steps.MustArgs(args)}
	}
	return &engine.Resume{Service: "resume", Log: `C:\resume\log`, Steps: []steps.Spec{
		spec("program", "file", &kinds.File{Path: program, Content: "p"}),
		spec("plan", "file", &kinds.File{Path: file, Content: "plan"}),
		spec("service", "service",
			&kinds.Service{State: host.ServiceStopped, ServiceConfig: host.ServiceConfig{Name: "resume",
				Command: []string{program, file}}}),
	}}, nil
}

func (w *world) applySelf() (*engine.Session, *engine.Summary) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
	w.t.Cleanup(cancel)
	w.limit = -1
	s := w.session(w.compile())
	w.t.Cleanup(s.Close)
	s.Check(ctx)
	return s, s.Apply(ctx)
}

// TestRebootSelf: the machine on which nodejoin runs is rebooted last, after the service is in place that finishes the
// plan after the boot. The next run continues, and leave removes the service.
func TestRebootSelf(t *testing.T) {
	w := newWorld(t)
	h, _ := w.box()
	if err := h.WithoutContainers(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.says(`features = ["Containers"]
	reboot = "auto"`)
	w.self, w.resume = "win-1", leaveResume
	before := w.bootTime()
	s, sum := w.applySelf()
	res := w.pendingReboot(sum, "win-1 is rebooted for the feature Containers")
	if !res.GoesDown || res.Failed != "reboot" || slices.Contains(res.NotRun, "feature_containers") ||
		!slices.Contains(res.NotRun, "containerd_files") {
		t.Errorf("goes down %v, failed at %q, not run: %v", res.GoesDown, res.Failed, res.NotRun)
	}
	if se := steps.AsError(res.Err); !strings.Contains(se.Remedy, "service resume") || !strings.Contains(se.Remedy,
		`C:\resume\log`) {
		t.Errorf("said: %s", se.Remedy)
	}
	if other := sum.Hosts[1]; other.Err != nil || other.GoesDown {
		t.Errorf("%s: %v", other.Node, other.Err)
	}
	if !w.node("win-2").Ready {
		t.Error("win-2 has not joined")
	}
	if svc, err := h.Service(t.Context(), "resume"); err != nil || svc.State != host.ServiceStopped ||
		svc.Start != host.StartAuto || !w.bootTime().Equal(before) {
		t.Errorf("the service is %+v (%v); booted %v, before %v", svc, err, w.bootTime(), before)
	}
	if err := s.RebootSelf(t.Context()); err != nil || !w.bootTime().After(before) {
		t.Errorf("%v; booted %v, before %v", err, w.bootTime(), before)
	}

	w.resume = func(plan.Node, host.Facts) (*engine.Resume, error) { return nil, errors.New("once is enough") }
	booted := w.bootTime()
	w.mustConverge()
	w.wantJoined("win-1")
	w.mustBeQuiet()
	if !w.bootTime().Equal(booted) {
		t.Error("it was rebooted again")
	}
	w.one = true
	if _, sum := w.leave(-1, engine.LeaveOptions{}); sum == nil || sum.Hosts[0].Err != nil {
		t.Fatalf("leave: %+v", sum)
	}
	for _, left := range []string{`C:\resume\plan`, `C:\resume\resume.exe`, `C:\resume`} {
		if _, err := h.Stat(t.Context(), left); err == nil {
			t.Errorf("leave left %s", left)
		}
	}
	if _, err := h.Service(t.Context(), "resume"); err == nil {
		t.Error("leave left the service")
	}
}

// TestRebootSelfRefused: if nothing can finish the plan after the boot, there is no reboot, and the run says why.
func TestRebootSelfRefused(t *testing.T) {
	for _, c := range []struct {
		why    string
		resume func(plan.Node, host.Facts) (*engine.Resume, error)
	}{
		{"nodejoin runs on this machine itself", nil},
		{"the plan needs SECRET", func(plan.Node, host.Facts) (*engine.Resume, error) {
			return nil, errors.New("the plan needs SECRET")
		}},
	} {
		w := newWorld(t)
		w.one = true
		w.says(`page_file = 8096
	reboot = "auto"`)
		w.self, w.resume = "win-1", c.resume
		before := w.bootTime()
		s, sum := w.applySelf()
		if res := w.pendingReboot(sum, c.why); res.GoesDown {
			t.Error("it goes down")
		}
		if err := s.RebootSelf(t.Context()); err != nil || !w.bootTime().Equal(before) {
			t.Errorf("rebooted: %v", err)
		}
		w.wantJoined("win-1") // no step waits for a page file
	}
}

// TestRebootSelfLast: a Node that serves pods on this machine is last in the rollout and stays cordoned.
func TestRebootSelfLast(t *testing.T) {
	w := newWorld(t)
	w.mustConverge()
	w.says(`page_file = 8096
	reboot = "auto"`)
	w.self, w.resume = "win-1", leaveResume
	before := w.bootTime()
	s, sum := w.applySelf()
	if res := w.pendingReboot(sum, "the page file"); !res.GoesDown {
		t.Error("it does not go down")
	}
	if other := sum.Hosts[1]; other.Err != nil || other.Held != "" || !slices.Contains(other.Changed, "reboot") {
		t.Errorf("%s: held %q, %v; changed %v", other.Node, other.Held, other.Err, other.Changed)
	}
	if err := s.RebootSelf(t.Context()); err != nil || !w.bootTime().After(before) {
		t.Errorf("%v; booted %v, before %v", err, w.bootTime(), before)
	}
	if n := w.node("win-1"); !n.Unschedulable {
		t.Error("the Node takes pods while its machine goes down")
	}
	w.mustConverge()
	w.wantJoined("win-1")
	w.mustBeQuiet()
}
