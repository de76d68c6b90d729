package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

// says puts a host block into the plan's profile, in place of the one before.
func (w *world) says(text string) {
	w.t.Helper()
	w.edit(`(?m)^  os     = "windows"\n(  host \{[^}]*\}\n)?`, "  os     = \"windows\"\n  host {\n"+text+"\n  }\n")
}

// pendingReboot wants that the one host's run ended with a pending reboot.
func (w *world) pendingReboot(sum *engine.Summary, why string) engine.HostSummary {
	w.t.Helper()
	h := sum.Hosts[0]
	if se := (*steps.Error)(nil); !errors.As(h.Err, &se) || se.Code != steps.CodeReboot || !strings.Contains(se.Detail, why) || h.TakenBack != nil {
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

// A machine without the feature Containers joins in one run, with one reboot for all
// that the plan sets up, before the services that need it.
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
	if at := slices.Index(changed, "reboot"); reboots != 1 || !w.bootTime().After(before) || at < slices.Index(changed, "feature_containers") ||
		at < slices.Index(changed, "page_file") || at > slices.Index(changed, "containerd_files") {
		t.Errorf("%d reboots, in %v", reboots, changed)
	}
	if f, err := h.Feature(t.Context(), "Containers"); err != nil || f != host.FeatureOn {
		t.Errorf("the feature is %q, %v", f, err)
	}
	w.wantJoined("win-1")
	w.mustBeQuiet()
}

// A reboot that the plan does not let nodejoin make ends the run before what needs it; a
// reboot by hand lets the next run go on. Nothing is taken back: this is no failure.
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
	reboot_times = ["Sat,Sun 22:00-04:00"]`, "it is Sun 12:00, and the plan lets it reboot at Sat,Sun 22:00-04:00 only", false},
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
			for range 2 { // the same again comes to the same
				_, sum := w.apply(-1)
				res := w.pendingReboot(sum, c.why)
				if res.Failed != "reboot" || !slices.Contains(res.NotRun, "containerd_files") || slices.Contains(res.NotRun, "feature_containers") {
					t.Errorf("failed at %q, not run: %v", res.Failed, res.NotRun)
				}
			}
			if f, err := h.Feature(t.Context(), "Containers"); err != nil || f != host.FeatureOnPending || !w.bootTime().Equal(before) {
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

// A reboot that Windows waits for already comes before the features that it may refuse until
// then, where the plan lets nodejoin make it; else nothing is changed before somebody has, or
// says that it does not matter.
func TestRebootBeforeFeature(t *testing.T) {
	const pending = `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending`
	waiting := func(t *testing.T) (*world, *sandbox.Host) {
		w := newWorld(t)
		w.one = true
		h, _ := w.box()
		if err := errors.Join(h.WithoutContainers(t.Context()), h.SetRegistryValue(t.Context(), pending, "x", host.RegistryValue{Type: "dword", Number: 1})); err != nil {
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
		if res := w.pendingReboot(sum, "the plan does not let nodejoin reboot it"); !slices.Contains(res.Changed, "feature_containers") {
			t.Errorf("waived, and yet changed %v", res.Changed)
		}
		if err := h.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.mustConverge()
		w.wantJoined("win-1")
	})
}

// joinedWithPods is a joined node with a pod of a ReplicaSet.
func joinedWithPods(t *testing.T) *world {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	if err := w.cluster().AddPod(t.Context(), "win-1", kube.Pod{Namespace: "d", Name: "web", Controller: "ReplicaSet"}, ""); err != nil {
		t.Fatal(err)
	}
	return w
}

// A Ready Node is cordoned and drained before its machine reboots, and takes pods again
// once all is verified; the plan shows it before.
func TestRebootOfReadyNode(t *testing.T) {
	w := joinedWithPods(t)
	w.says(`page_file = 8096
	reboot = "auto"`)
	i := w.check().Hosts[0].Interruption
	if i == nil || !i.Reboot || !slices.Equal(i.Evict, []string{"d/web"}) {
		t.Fatalf("the interruption is told as %+v", i)
	}
	var order []string
	w.heard = func(e event.Event) {
		if d, ok := e.(event.StepDone); ok && d.Result == "changed" && slices.Contains([]string{"page_file", "cordon", "drain", "reboot", "boot", "joined"}, d.Step) {
			order = append(order, d.Step)
		}
	}
	before := w.bootTime()
	w.mustConverge()
	if want := "page_file cordon drain reboot boot joined"; strings.Join(order, " ") != want || !w.bootTime().After(before) {
		t.Errorf("have %q, want %q", order, want)
	}
	if pods, err := w.cluster().Pods(t.Context(), "win-1"); err != nil || len(pods) > 0 {
		t.Errorf("pods %v, %v", pods, err)
	}
	w.wantJoined("win-1")
	w.mustBeQuiet()
}

// What only counts after a reboot keeps nothing else back: the rest is done, the pods
// stay, and each run says that the reboot is pending until it was.
func TestRebootLeft(t *testing.T) {
	w := joinedWithPods(t)
	w.says(`page_file = 8096
	reboot = "never"`)
	w.edit(`was joined by nodejoin`, "has joined")
	r, sum := w.apply(-1)
	res := w.pendingReboot(sum, "for the page file")
	if r.Hosts[0].Interruption != nil || len(res.NotRun) > 0 || !slices.Contains(res.Changed, "motd") || res.Failed != "" {
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

// TestRebootsInTurn: machines whose Nodes serve pods reboot as the plan's rollout allows.
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

// slowBoot makes machines go down some time after they are told to, and not answer for a
// while.
type slowBoot struct {
	down, dead int // looks until it goes down, and connections that are refused then

	mu      sync.Mutex
	going   map[string]int
	refused map[string]int
	useless bool   // a boot ends nothing
	undone  string // a feature that Windows takes back while it boots
	ends    int64  // probes after the boot at which the kubelet ends by itself; negative = all
	ending  atomic.Int64
	unready int // looks that fail once it has booted; negative = all
	asked   int
	booted  bool
}

var errNotReady = errors.New("the RPC server is unavailable")

func (s *slowBoot) connect(node string) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused[node] > 0 {
		s.refused[node]--
		return &transport.ConnectError{Reason: transport.ReasonUnreachable, Host: node, Summary: "no answer"}
	}
	return nil
}

// of is a machine that goes down late.
func (s *slowBoot) of(h *sandbox.Host) host.Host {
	if s == nil {
		return h
	}
	return &slowMachine{Host: h, s: s}
}

type slowMachine struct {
	host.Host
	s *slowBoot
}

func (m *slowMachine) Reboot(ctx context.Context) error {
	f, err := m.Facts(ctx)
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.s.going == nil {
		m.s.going, m.s.refused = map[string]int{}, map[string]int{}
	}
	m.s.going[f.Hostname] = m.s.down
	m.s.asked++
	return err
}

// ProbeHTTP asks a machine on which the kubelet may have ended.
func (m *slowMachine) ProbeHTTP(ctx context.Context, url string) (int, error) {
	if m.s.ending.Load() != 0 {
		m.s.ending.Add(-1)
		for _, name := range []string{"kube-proxy", "kubelet"} { // one with dependents cannot be stopped
			if err := m.StopService(ctx, name); err != nil {
				return 0, err
			}
		}
	}
	return m.Host.ProbeHTTP(ctx, url)
}

// bootingConn is lost when its machine goes down.
type bootingConn struct {
	transport.Conn
	s *slowBoot
	h *sandbox.Host
}

func (c *bootingConn) Check(ctx context.Context, req steps.Request) (steps.CheckReply, error) {
	f, err := c.h.Facts(ctx)
	if err != nil {
		return steps.CheckReply{}, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	n, going := c.s.going[f.Hostname]
	switch {
	case going && n > 0:
		c.s.going[f.Hostname]--
	case going:
		delete(c.s.going, f.Hostname)
		c.s.refused[f.Hostname] = c.s.dead
		if c.s.undone != "" {
			if err := c.h.DisableFeature(ctx, c.s.undone); err != nil {
				return steps.CheckReply{}, err
			}
		}
		if err := c.h.Reboot(ctx); err != nil {
			return steps.CheckReply{}, err
		}
		if c.s.useless {
			if err := c.h.NoteReboot(ctx, "an update that does not end"); err != nil {
				return steps.CheckReply{}, err
			}
		}
		c.s.booted = true
		c.s.ending.Store(c.s.ends)
		return steps.CheckReply{}, fmt.Errorf("check: %w", transport.ErrDropped)
	case c.s.booted && c.s.unready != 0:
		c.s.unready--
		return steps.CheckReply{}, errNotReady
	}
	return c.Conn.Check(ctx, req)
}

// A machine takes its time to go down, and does not answer for a while: it is told once,
// waited for, and the run goes on. One that wants the same after its boot is not
// rebooted for ever.
func TestSlowReboot(t *testing.T) {
	t.Run("goes on", func(t *testing.T) {
		w := newWorld(t)
		w.one, w.boots = true, &slowBoot{down: 1, dead: 2}
		w.says(`page_file = 8096
	reboot = "auto"`)
		w.mustConverge()
		if w.boots.asked != 1 {
			t.Errorf("it was told %d times", w.boots.asked)
		}
		w.wantJoined("win-1")
		w.mustBeQuiet()
	})
	t.Run("is not ready when it answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.one, w.boots = true, &slowBoot{dead: 1, unready: 2}
			w.says(`page_file = 8096
	reboot = "auto"`)
			w.mustConverge()
			if w.boots.asked != 1 || w.boots.unready != 0 {
				t.Errorf("it was told %d times, and failed %d looks less than it should", w.boots.asked, w.boots.unready)
			}
			w.wantJoined("win-1")
			w.mustBeQuiet()
		})
	})
	t.Run("is never ready", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.one, w.boots = true, &slowBoot{unready: -1}
			w.says(`page_file = 8096
	reboot = "auto"`)
			began := time.Now()
			_, sum := w.apply(-1)
			h := sum.Hosts[0]
			if h.Failed != "reboot" || steps.AsError(h.Err).Code != steps.CodeTimeout || !strings.HasSuffix(steps.AsError(h.Err).Detail, "last seen: it is not ready yet: "+errNotReady.Error()) {
				t.Errorf("failed at %q: %v", h.Failed, h.Err)
			}
			if took := time.Since(began); took < 30*time.Minute || took > 31*time.Minute {
				t.Errorf("it was waited for %s", took)
			}
		})
	})
	t.Run("was not enough", func(t *testing.T) {
		w := newWorld(t)
		w.one, w.boots = true, &slowBoot{useless: true}
		w.says(`page_file = 8096
	reboot = "auto"`)
		_, sum := w.apply(-1)
		if h := sum.Hosts[0]; h.Failed != "reboot" || !strings.Contains(fmt.Sprint(h.Err), "a reboot was not enough") || w.boots.asked != 1 {
			t.Errorf("failed at %q: %v; told %d times", h.Failed, h.Err, w.boots.asked)
		}
	})
	t.Run("a feature is taken back", func(t *testing.T) {
		w := newWorld(t)
		w.one, w.boots = true, &slowBoot{undone: "Microsoft-Hyper-V"}
		w.says(`features = ["Containers", "Microsoft-Hyper-V"]
	reboot = "auto"`)
		_, sum := w.apply(-1)
		h := sum.Hosts[0]
		if e := steps.AsError(h.Err); h.Failed != "reboot" || e == nil || e.Summary != "a feature did not outlive the reboot" || !strings.Contains(e.Detail, "feature_microsoft_hyper_v") {
			t.Errorf("failed at %q: %v", h.Failed, h.Err)
		}
		w.boots.undone = ""
		w.mustConverge()
		w.wantJoined("win-1")
		w.mustBeQuiet()
	})
	t.Run("the kubelet ends, and is started again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.one = true
			w.mustConverge()
			w.boots = &slowBoot{ends: 2} // as the step looks, and as it waits
			w.says(`page_file = 8096
	reboot = "auto"`)
			var failed, tried int
			w.heard = func(e event.Event) {
				switch e := e.(type) {
				case event.StepDone:
					if e.Result == "failed" {
						failed++
					}
				case event.StepProgress:
					if e.Step == "kubelet_ready" && strings.HasSuffix(e.Note, "so it is tried again") {
						tried++
					}
				}
			}
			w.mustConverge()
			if failed != 0 || tried != 1 || w.boots.ending.Load() != 0 {
				t.Errorf("%d steps failed, and %d were tried again", failed, tried)
			}
			w.wantJoined("win-1")
			w.mustBeQuiet()
		})
	})
	t.Run("the kubelet ends again and again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.one = true
			w.mustConverge()
			w.boots = &slowBoot{ends: -1}
			w.says(`page_file = 8096
	reboot = "auto"`)
			began := time.Now()
			_, sum := w.apply(-1)
			if h := sum.Hosts[0]; h.Failed != "kubelet_ready" || steps.AsError(h.Err).Summary != "the service ended by itself" {
				t.Errorf("failed at %q: %v", h.Failed, h.Err)
			}
			if took := time.Since(began); took < 3*time.Minute || took > 5*time.Minute {
				t.Errorf("it was tried for %s", took)
			}
		})
	})
}
