//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"nodejoin/cmd/nodejoin/internal/jsonout"
)

// TestChaos runs nodejoin repeatedly over 50 simulated machines and 4 machines behind SSH. Meanwhile connections are
// cut, machines hang, disks are full, services do not start, files are lost, and nodejoin itself gets signals or is
// killed. After each run every machine matches its plan or was reported, and no process or goroutine is left. At the
// end a single run without faults converges, and a leave restores each machine.
//
// NODEJOIN_CHAOS sets how long it runs (20m). Less than 10 minutes, and the default is much less, is for fewer
// machines and for faults that do not take long. NODEJOIN_CHAOS_SEED repeats the random choices.
func TestChaos(t *testing.T) {
	long, boxes := 4*time.Second, 8
	if text := os.Getenv("NODEJOIN_CHAOS"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if long >= 10*time.Minute {
		boxes = 50
	}
	if testing.Short() {
		t.Skip("runs for ten seconds")
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("NODEJOIN_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("NODEJOIN_CHAOS_SEED=%d", seed)
	c := newChaos(t)
	c.long = boxes == 50
	hosts := newChaosHosts(t, c.root, 4)
	fleets := []*chaosFleet{
		{chaos: c, name: "steps", boxes: boxes / 5, hosts: hosts, rnd: rand.New(rand.NewPCG(seed, 1))},
		{chaos: c, name: "join", boxes: boxes - boxes/5, rnd: rand.New(rand.NewPCG(seed, 2))},
	}
	end := time.Now().Add(long)
	var loops sync.WaitGroup
	for _, f := range fleets {
		f.prepare()
		loops.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				f.once()
			}
		})
	}
	loops.Wait()
	for _, f := range fleets {
		if t.Failed() {
			return
		}
		f.finish()
		t.Logf("%s: %d runs, %d machines; %d times a machine was finished, %d times reported; faults: %v", f.name, f.round,
			f.boxes+len(f.hosts), f.fine, f.reported, f.faults)
	}
}

// chaos is the state that all runs share.
type chaos struct {
	t    *testing.T
	root string
	env  []string
	long bool // there is time for faults that take long
}

func newChaos(t *testing.T) *chaos {
	root := t.TempDir()
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Skip("no Go tool that builds the agent")
	}
	dirs := strings.Fields(string(out))
	return &chaos{t: t, root: root, env: append(os.Environ(), "HOME="+filepath.Join(root, "home"), "GOCACHE="+dirs[0],
		"GOMODCACHE="+dirs[1], "XDG_CACHE_HOME="+filepath.Join(root, "cache"), "SSH_AUTH_SOCK=", "TERM=dumb")}
}

// outcome describes how a run of nodejoin ended.
type outcome struct {
	code        int  // -1 if a signal ended it
	early       bool // a signal ended it before it listened for signals
	out, errors []byte
	took        time.Duration
}

// bound is the longest time that a run may take. With long faults, nodejoin gives up on a machine that hangs in an
// apply after at most 14 minutes. Without them, the bound is less than the timeout of go test for the package.
func (c *chaos) bound() time.Duration {
	if c.long {
		return 20 * time.Minute
	}
	return 3 * time.Minute
}

// lostOutput before the arguments makes standard output a full disk.
const lostOutput = "> /dev/full"

// controller is a run of nodejoin.
type controller struct {
	*os.Process
	began string // the file that it writes when its main begins
	early atomic.Bool
}

// Signal records whether the run may not listen for signals yet. Main starts to listen at once, unless the machine
// is busy.
func (c *controller) Signal(s os.Signal) error {
	info, err := os.Stat(c.began)
	if err != nil || time.Since(info.ModTime()) < 100*time.Millisecond {
		c.early.Store(true)
	}
	return c.Process.Signal(s)
}

// start runs nodejoin. It passes its process to meanwhile, and a channel that is closed when the run ends.
func (c *chaos) start(meanwhile func(p *controller, ended <-chan struct{}), args ...string) outcome {
	c.t.Helper()
	dir, err := os.MkdirTemp(c.root, "run-*")
	if err != nil {
		c.t.Fatal(err)
	}
	files := make([]*os.File, 2)
	cmd := exec.Command("nodejoin-leaks", args...)
	for i, name := range []string{"stdout", "stderr"} {
		if files[i], err = os.Create(filepath.Join(dir, name)); err != nil {
			c.t.Error(err)
			return outcome{}
		}
		defer func() { _ = files[i].Close() }()
	}
	began := filepath.Join(dir, "began")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.root, append(slices.Clip(c.env), beganEnv+"="+began), files[0], files[1]
	if args[0] == lostOutput {
		cmd.Args = slices.Delete(cmd.Args, 1, 2)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			c.t.Error(err)
			return outcome{}
		}
		defer func() { _ = full.Close() }()
		cmd.Stdout = full
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return outcome{}
	}
	ended := make(chan struct{})
	var faults sync.WaitGroup
	run := &controller{Process: cmd.Process, began: began}
	if meanwhile != nil {
		faults.Go(func() { meanwhile(run, ended) })
	}
	late := time.AfterFunc(c.bound(), func() {
		c.t.Errorf("nodejoin %v did not end within %s", args, c.bound())
		_ = cmd.Process.Signal(syscall.SIGQUIT)
	})
	_ = cmd.Wait()
	late.Stop()
	close(ended)
	faults.Wait()
	o := outcome{code: cmd.ProcessState.ExitCode(), took: time.Since(started)}
	o.out, _ = os.ReadFile(files[0].Name())
	o.errors, _ = os.ReadFile(files[1].Name())
	o.early = o.code == -1 && run.early.Load() && len(o.out)+len(o.errors) == 0
	_ = os.RemoveAll(dir)
	return o
}

// fails reports a run that broke a rule.
func (f *chaosFleet) fails(o outcome, format string, args ...any) {
	f.t.Helper()
	f.t.Errorf("%s, round %d with %v: %s; exit code %d after %s\n%s\n%s", f.name, f.round, f.now,
		fmt.Sprintf(format, args...), o.code, o.took, lastBytes(o.out), lastBytes(o.errors))
}

// lastBytes is the end of an output. It has all goroutines of a run that took too long and was ended.
func lastBytes(b []byte) []byte {
	if at := bytes.Index(b, []byte("SIGQUIT: quit")); at >= 0 {
		return b[at:min(len(b), at+100_000)]
	}
	return b[max(0, len(b)-4000):]
}

// judge checks an apply against its own output, and returns the machines that the output calls finished.
func (f *chaosFleet) judge(o outcome, lenient bool) (fine map[string]bool) {
	fine = map[string]bool{}
	if o.early { // it has done nothing yet
		return fine
	}
	known := []int{exitOK, exitFailed, exitUnreachable, exitNotVerified, exitLocked, exitInterrupted}
	if lenient {
		known = append(known, -1, exitOutput)
	}
	if !slices.Contains(known, o.code) {
		f.fails(o, "an exit code that it must not have")
		return fine
	}
	lines := bytes.Split(bytes.TrimSpace(o.out), []byte("\n"))
	var s jsonout.Summary
	if err := json.Unmarshal(lines[len(lines)-1], &s); err != nil || s.Type != "summary" {
		if !lenient {
			f.fails(o, "no summary")
		}
		return fine
	}
	killed := lenient && o.code == -1 // after it wrote its summary
	if s.ExitCode != o.code && !killed || s.Cluster == nil && len(s.Hosts) != f.boxes+len(f.hosts) {
		f.fails(o, "the summary has exit code %d and %d machines", s.ExitCode, len(s.Hosts))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range s.Hosts {
		if fine[h.Node] = h.Error == nil && h.Held == "" && len(h.NotRun) == 0 && s.Cluster == nil; fine[h.Node] {
			f.fine++
		} else {
			f.reported++
		}
	}
	if o.code == exitOK {
		for node, ok := range fine {
			if !ok {
				f.fails(o, "%s is not finished", node)
			}
		}
	}
	return fine
}

// mustBe checks, without faults, that the machines that a run called finished are finished.
func (f *chaosFleet) mustBe(fine map[string]bool) {
	o := f.start(nil, "plan", "--json", f.dir)
	var p jsonout.Plan
	if err := json.Unmarshal(o.out, &p); err != nil || o.code != exitOK || len(p.Hosts) != f.boxes+len(f.hosts) {
		f.fails(o, "a plan without faults (%v)", err)
		return
	}
	for _, h := range p.Hosts {
		if !fine[h.Node] {
			continue
		}
		var differ []string
		for _, s := range h.Steps {
			if !s.Change.NoOp() || s.Error != nil {
				differ = append(differ, fmt.Sprintf("%s %v %v", s.Address, s.Change, s.Error))
			}
		}
		if h.State != "in_sync" || len(differ) > 0 || len(h.Removals) > 0 {
			f.t.Errorf("%s, round %d with %v: %s was called finished, and is %s: %v, removals %v, %v", f.name, f.round,
				f.now, h.Node, h.State, differ, h.Removals, h.Error)
		}
	}
}
