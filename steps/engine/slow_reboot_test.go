package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// slowBoot makes machines go down some time after the request and stay unreachable for a while.
type slowBoot struct {
	down, dead int // checks until it goes down, and connections that are refused then

	mu      sync.Mutex
	going   map[string]int
	refused map[string]int
	useless bool   // the boot does not clear the request
	undone  string // a feature that Windows turns off again during the boot
	ends    int64  // probes after the boot at which the kubelet exits by itself; negative = all
	ending  atomic.Int64
	unready int // checks that fail after the boot; negative = all
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

// of returns a machine that goes down late.
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

// ProbeHTTP probes a machine whose kubelet may have exited.
func (m *slowMachine) ProbeHTTP(ctx context.Context, url string) (int, error) {
	if m.s.ending.Load() != 0 {
		m.s.ending.Add(-1)
		for _, name := range []string{"kube-proxy", "kubelet"} { // a service with dependents cannot be stopped
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

func (c *bootingConn) Do(ctx context.Context, m wire.Message, emit func(event.Event)) error {
	if m.Method() == wire.Check.Method {
		if err := c.booting(ctx); err != nil {
			return err
		}
	}
	return c.Conn.Do(ctx, m, emit)
}

// booting returns the error of a check while the machine goes down or comes up; nil = it is up.
func (c *bootingConn) booting(ctx context.Context) error {
	f, err := c.h.Facts(ctx)
	if err != nil {
		return err
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
				return err
			}
		}
		if err := c.h.Reboot(ctx); err != nil {
			return err
		}
		if c.s.useless {
			if err := c.h.NoteReboot(ctx, "an update that does not end"); err != nil {
				return err
			}
		}
		c.s.booted = true
		c.s.ending.Store(c.s.ends)
		return fmt.Errorf("check: %w", transport.ErrDropped)
	case c.s.booted && c.s.unready != 0:
		c.s.unready--
		return errNotReady
	}
	return nil
}

// bubble runs a test with a clock of its own.
func bubble(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// TestSlowReboot: a machine takes its time to go down and does not answer for a while. It gets one request, the run
// waits for it and continues. A machine that still needs the same reboot afterwards is not rebooted forever.
func TestSlowReboot(t *testing.T) {
	t.Run("goes on", bubble(func(t *testing.T) {
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
	}))
	t.Run("is not ready when it answers", bubble(func(t *testing.T) {
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
	}))
	t.Run("is never ready", bubble(func(t *testing.T) {
		w := newWorld(t)
		w.one, w.boots = true, &slowBoot{unready: -1}
		w.says(`page_file = 8096
reboot = "auto"`)
		began := time.Now()
		_, sum := w.apply(-1)
		h := sum.Hosts[0]
		if h.Failed != "reboot" || steps.AsError(h.Err).Code != steps.CodeTimeout ||
			!strings.HasSuffix(steps.AsError(h.Err).Detail, "last seen: it is not ready yet: "+errNotReady.Error()) {
			t.Errorf("failed at %q: %v", h.Failed, h.Err)
		}
		if took := time.Since(began); took < 30*time.Minute || took > 31*time.Minute {
			t.Errorf("it was waited for %s", took)
		}
	}))
	t.Run("was not enough", bubble(func(t *testing.T) {
		w := newWorld(t)
		w.one, w.boots = true, &slowBoot{useless: true}
		w.says(`page_file = 8096
	reboot = "auto"`)
		_, sum := w.apply(-1)
		if h := sum.Hosts[0]; h.Failed != "reboot" || !strings.Contains(fmt.Sprint(h.Err),
			"a reboot was not enough") || w.boots.asked != 1 {
			t.Errorf("failed at %q: %v; told %d times", h.Failed, h.Err, w.boots.asked)
		}
	}))
	t.Run("a feature is rolled back", bubble(func(t *testing.T) {
		w := newWorld(t)
		w.one, w.boots = true, &slowBoot{undone: "Microsoft-Hyper-V"}
		w.says(`features = ["Containers", "Microsoft-Hyper-V"]
	reboot = "auto"`)
		_, sum := w.apply(-1)
		h := sum.Hosts[0]
		if e := steps.AsError(h.Err); h.Failed != "reboot" || e == nil ||
			e.Summary != "a change did not outlive the reboot" || !strings.Contains(e.Detail, "feature_microsoft_hyper_v") {
			t.Errorf("failed at %q: %v", h.Failed, h.Err)
		}
		w.boots.undone = ""
		w.mustConverge()
		w.wantJoined("win-1")
		w.mustBeQuiet()
	}))
	t.Run("the kubelet ends, and is started again", bubble(func(t *testing.T) {
		w := newWorld(t)
		w.one = true
		w.mustConverge()
		w.boots = &slowBoot{ends: 2} // in the step's check, and in its wait
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
	}))
	t.Run("the kubelet ends again and again", bubble(func(t *testing.T) {
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
	}))
}

// TestParallelBoundsReboots: no more machines reboot at once than hosts may be worked on at once.
func TestParallelBoundsReboots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.parallel, w.boots = 1, &slowBoot{down: 1, dead: 3}
		w.says(`page_file = 8096
reboot = "auto"`)
		down, most := map[string]bool{}, 0
		w.heard = func(e event.Event) {
			if h, ok := e.(event.HostState); ok && h.State == "rebooting" {
				down[h.Host] = true
				most = max(most, len(down))
			} else if ok && h.State == "applying" {
				delete(down, h.Host)
			}
		}
		w.mustConverge()
		if w.boots.asked != 2 || most != 1 {
			t.Errorf("%d machines rebooted, %d at once", w.boots.asked, most)
		}
	})
}
