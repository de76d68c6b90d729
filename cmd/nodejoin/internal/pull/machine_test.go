package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

// applier follows the plan examples/quickstart with a real apply of a sandbox. The bundles of its releases are what
// is added to the plan.
type applier struct {
	*node
	dir   string
	is    plan.Node
	calls atomic.Int64
	limit int64             // of mutating calls, after which all fail as if the process had been killed; 0 = none
	hears func(event.Event) // gets each event; nil = nobody
}

const (
	common = `
step "file" "kept" {
  on      = node.win
  path    = "C:\\site\\kept.txt"
  content = "%s"
}
`
	dropped = `
step "file" "dropped" {
  on      = node.win
  path    = "C:\\site\\dropped.txt"
  content = "x"
}
step "service" "dropped_service" {
  on          = node.win
  name        = "dropped"
  description = "Dropped"
  command     = ["C:\\site\\dropped.txt"]
  start       = "auto"
  after       = ["dropped"]
}
`
	failing = `
step "file" "bad" {
  on      = node.win
  path    = "C:\\site\\kept.txt\\x"
  content = "x"
  after   = ["kept", "kube_proxy"]
}
`
)

// newApplier has a controller join the machine.
func newApplier(t *testing.T, joined string) *applier {
	t.Helper()
	s := newSite(t)
	a := &applier{dir: filepath.Join(t.TempDir(), "plan")}
	must(t, os.CopyFS(a.dir, os.DirFS("../../../../examples/quickstart")))
	a.node = s.machine("win-1")
	a.applies = a.apply
	p := a.compile(joined)
	p.Nodes = p.Nodes[:1]
	a.is = p.Nodes[0]
	session := engine.New(p, a.options(p))
	defer session.Close()
	if r := session.Check(t.Context()); r.Cluster != nil || r.Hosts[0].Err != nil {
		t.Fatal(r.Cluster, r.Hosts[0].Err)
	}
	if sum := session.Apply(t.Context()); sum.Hosts[0].Err != nil {
		t.Fatal(sum.Hosts[0].Failed, sum.Hosts[0].Err)
	}
	return a
}

// compile compiles the plan with what is added to it.
func (a *applier) compile(added string) *plan.Compiled {
	a.s.t.Helper()
	file := filepath.Join(a.dir, "quickstart.join.hcl")
	text, err := os.ReadFile("../../../../examples/quickstart/quickstart.join.hcl")
	must(a.s.t, err)
	const system = "  os     = \"windows\"\n"
	with := strings.Replace(string(text), system, system+"  on_failure = \"rollback\"\n", 1)
	must(a.s.t, os.WriteFile(file, []byte(with+added), 0o600))
	program := filepath.Join(a.dir, "program")
	must(a.s.t, os.WriteFile(program, []byte("stand-in"), 0o600))
	sum := sha256.Sum256([]byte("stand-in"))
	self := func(_, _, _ string) (steps.Source, error) {
		return steps.Source{File: program, SHA256: hex.EncodeToString(sum[:])}, nil
	}
	p, diags := plan.Load(a.dir, plan.Options{Version: "0.1.0", Agent: self, Self: self})
	if diags.HasErrors() {
		a.s.t.Fatal(diags)
	}
	c, diags := p.Compile()
	if diags.HasErrors() {
		a.s.t.Fatal(diags)
	}
	return c
}

var errKilled = errors.New("killed")

func (a *applier) options(p *plan.Compiled) engine.Options {
	killed := func() error {
		if n := a.calls.Add(1); a.limit > 0 && n > a.limit {
			return errKilled
		}
		return nil
	}
	return engine.Options{
		Emit: func(e event.Event) {
			if a.hears != nil {
				a.hears(e)
			}
		},
		Holder: steps.LockHolder{Run: fmt.Sprint("run-", time.Now().UnixNano()), Command: "apply"},
		Gone:   func(steps.LockHolder) bool { return true },
		Cluster: func(ctx context.Context) (kube.API, error) {
			return sandbox.OpenCluster(ctx, sandbox.ClusterConfig{Dir: p.Cluster.Sandbox, PodCIDR: p.Cluster.PodCIDR})
		},
		Connect: func(ctx context.Context, n plan.Node) (transport.Conn, error) {
			h, err := a.box(ctx, n)
			if err != nil {
				return nil, err
			}
			return transport.NewLocal(host.Intercept(h, func(string, string) error { return killed() }),
				artifact.New(artifact.Options{Direct: true}), h.LockDir()), nil
		}}
}

func (a *applier) box(ctx context.Context, n plan.Node) (*sandbox.Host, error) {
	s := n.Connection.Sandbox
	return sandbox.Open(ctx, sandbox.Config{Path: s.Path, OS: n.OS, Build: s.Build, IP: s.IP, Hostname: n.Name,
		DataDir: n.DataDir, ClusterDir: s.ClusterDir})
}

// apply is nodejoin apply of a bundle.
func (a *applier) apply(ctx context.Context, args []string) (int, firstboot.Outcome) {
	b, err := os.ReadFile(args[len(args)-1])
	if err != nil {
		a.s.t.Error(err)
	}
	p := a.compile(string(b))
	if err := a.Prepare(ctx, p); err != nil {
		return 1, firstboot.Failed
	}
	session := engine.New(p, a.Options(p, a.options(p)))
	defer session.Close()
	r := session.Check(ctx)
	if r.Hosts[0].Err != nil {
		a.said = append(a.said, r.Hosts[0].Err.Error())
		return 1, firstboot.Failed
	}
	sum := session.Apply(ctx).Hosts[0]
	if sum.Err != nil {
		a.said = append(a.said, sum.Failed+": "+sum.Err.Error())
		return 1, firstboot.Failed
	}
	return 0, firstboot.Finished
}

// cluster is that of the plan.
func (a *applier) cluster() *sandbox.Cluster {
	a.s.t.Helper()
	c, err := sandbox.OpenCluster(context.WithoutCancel(a.s.t.Context()),
		sandbox.ClusterConfig{Dir: filepath.Join(a.dir, ".sandbox", "cluster"), PodCIDR: "10.244.0.0/16"})
	must(a.s.t, err)
	return c
}

// follow makes a round of a release of the plan with what is added to it.
func (a *applier) follow(serial int64, added string) int {
	a.s.t.Helper()
	a.s.publish(serial, added)
	a.s.cluster = a.cluster()
	a.calls.Store(0)
	return a.round(a.s.t.Context())
}

// wantReason checks the result on the Node.
func (a *applier) wantReason(reason, message string) {
	a.s.t.Helper()
	have, err := a.cluster().Node(a.s.t.Context(), "win-1")
	must(a.s.t, err)
	for _, c := range have.Conditions {
		if c.Type == conditionType && c.Reason == reason && strings.Contains(c.Message, message) {
			return
		}
	}
	a.s.t.Errorf("the Node has %+v, want %s: %s\n%s", have.Conditions, reason, message, strings.Join(a.said, "\n"))
}

// wantFile checks a file of the machine; "" = it is not there.
func (a *applier) wantFile(name, content string) {
	a.s.t.Helper()
	b, err := os.ReadFile(filepath.Join(a.dir, ".sandbox", "win-1", "C", "site", name))
	if content == "" && errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil || string(b) != content {
		a.s.t.Errorf("%s: %q, %v; want %q", name, b, err, content)
	}
}

// wantService checks whether the machine has a service.
func (a *applier) wantService(name string, want bool) {
	a.s.t.Helper()
	h, err := a.box(a.s.t.Context(), a.is)
	must(a.s.t, err)
	_, err = h.Service(a.s.t.Context(), name)
	if (err == nil) != want {
		a.s.t.Errorf("service %s: %v, want it there: %v", name, err, want)
	}
}

// TestFollowerRemoves: a node that follows a plan removes what a release drops, also if the round is killed anywhere.
// What was changed since by somebody else stays.
func TestFollowerRemoves(t *testing.T) {
	first := fmt.Sprintf(common, "one")
	for _, limit := range []int64{0, 1, 3, 5, 8} {
		t.Run(fmt.Sprint("killed after ", limit), func(t *testing.T) {
			a := newApplier(t, first+dropped)
			a.wantService("dropped", true)
			a.limit = limit
			a.follow(1, fmt.Sprintf(common, "two"))
			a.limit = 0
			if code := a.follow(1, fmt.Sprintf(common, "two")); code != 0 {
				t.Errorf("code %d: %q", code, a.said)
			}
			a.wantReason("Applied", "release 1")
			a.wantFile("kept.txt", "two")
			a.wantFile("dropped.txt", "")
			a.wantService("dropped", false)
		})
	}
	t.Run("changed since", func(t *testing.T) {
		a := newApplier(t, first+dropped)
		file := filepath.Join(a.dir, ".sandbox", "win-1", "C", "site", "dropped.txt")
		must(t, os.WriteFile(file, []byte("mine"), 0o600))
		if code := a.follow(1, first); code != 0 {
			t.Errorf("code %d: %q", code, a.said)
		}
		a.wantFile("dropped.txt", "mine")
		a.wantService("dropped", false)
	})
}

// TestFollowerKeepsItsBlock: a release without the follow block that a controller has applied would remove the program
// that applies it. It changes nothing.
func TestFollowerKeepsItsBlock(t *testing.T) {
	first := fmt.Sprintf(common, "one")
	a := newApplier(t, first)
	a.file.Managed = true
	if code := a.follow(1, fmt.Sprintf(common, "two")); code != 1 {
		t.Errorf("code %d: %q", code, a.said)
	}
	a.wantReason("Refused", "release 1 has no follow block for node win-1")
	a.wantFile("kept.txt", "one")
	r := Run{Path: `c:\data\follow.json`}
	for path, want := range map[string]bool{`C:\data\follow.json`: true, `C:\data\other.json`: false} {
		n := plan.Node{OS: "windows", Steps: []steps.Spec{{ID: "follow_file", Kind: "file",
			Args: steps.MustArgs(&kinds.File{Path: path})}}}
		if r.goesOn(n) != want {
			t.Errorf("with %s it goes on: %v", path, !want)
		}
	}
}

// TestFollowerRollsBack: a release that fails is rolled back, and not tried again; the other nodes wait for a newer
// one. A round that is killed in the middle is finished by the next.
func TestFollowerRollsBack(t *testing.T) {
	first, bad := fmt.Sprintf(common, "one")+dropped, fmt.Sprintf(common, "two")+failing
	for _, limit := range []int64{0, 2, 5} {
		t.Run(fmt.Sprint("killed after ", limit), func(t *testing.T) {
			a := newApplier(t, first)
			a.limit = limit
			code := a.follow(1, bad)
			if a.limit = 0; limit > 0 {
				code = a.follow(1, bad)
			}
			if code != 1 {
				t.Errorf("code %d: %q", code, a.said)
			}
			for range 2 { // the second round does not try it again
				a.wantReason("RolledBack", "release 1 failed at bad and was rolled back (")
				a.wantFile("kept.txt", "one")
				a.wantFile("dropped.txt", "x")
				a.wantService("dropped", true)
				before := a.calls.Load()
				if code := a.follow(1, bad); code != 1 || a.calls.Load() != 0 {
					t.Errorf("code %d, %d and then %d changes: %q", code, before, a.calls.Load(), a.said)
				}
			}
			leases, err := a.cluster().Leases(t.Context(), "nodejoin-demo.failed-")
			if err != nil || len(leases) != 1 || leases[0].Holder != "plan prod, release 1" {
				t.Errorf("%+v, %v", leases, err)
			}
			if code := a.follow(2, fmt.Sprintf(common, "three")); code != 0 {
				t.Errorf("code %d: %q", code, a.said)
			}
			a.wantReason("Applied", "release 2")
			a.wantFile("kept.txt", "three")
			a.wantFile("dropped.txt", "")
		})
	}
}

// TestFollowerPaused: a pause ends a round before its next step, and is no failure. The next round finishes it.
func TestFollowerPaused(t *testing.T) {
	more := strings.ReplaceAll(fmt.Sprintf(common, "more"), "kept.", "more.")
	more = strings.Replace(more, "}", "  after = [\"kept\"]\n}", 1)
	more = strings.Replace(more, `"file" "kept"`, `"file" "more"`, 1)
	for name, c := range map[string]struct {
		at      string // the step with whose end the pause comes; "" = before the round
		kept    string
		service bool // the dropped one is still there
		holdsUp bool
	}{
		"before":         {"", "one", true, false},
		"in the removal": {"service:dropped", "one", false, true},
		"between steps":  {"kept", "two", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApplier(t, fmt.Sprintf(common, "one")+dropped)
			a.hears = func(e event.Event) {
				if d, ok := e.(event.StepDone); ok && d.Step == c.at {
					a.pause(true)
				}
			}
			if c.at == "" {
				a.pause(true)
			}
			two := fmt.Sprintf(common, "two") + more
			if code := a.follow(1, two); code != 0 {
				t.Errorf("code %d: %q", code, a.said)
			}
			a.wantReason("Waiting", "release 1 waits for the end of the pause")
			a.wantFile("kept.txt", c.kept)
			a.wantFile("more.txt", "")
			a.wantFile("dropped.txt", "x")
			a.wantService("dropped", c.service)
			leases, err := a.cluster().Leases(t.Context(), "nodejoin-demo.failed-")
			if err != nil || len(leases) != map[bool]int{true: 1}[c.holdsUp] {
				t.Errorf("other nodes wait: %+v, %v; want that: %v", leases, err, c.holdsUp)
			}
			a.hears = nil
			a.pause(false)
			if code := a.follow(1, two); code != 0 {
				t.Errorf("code %d: %q", code, a.said)
			}
			a.wantReason("Applied", "release 1")
			a.wantFile("kept.txt", "two")
			a.wantFile("more.txt", "more")
			a.wantFile("dropped.txt", "")
			a.wantService("dropped", false)
		})
	}
}

// TestFollowerIsOneRun: the slot of a follower and the Lease of its apply are those of one run, so that nobody takes
// the slot for that of a run that died.
func TestFollowerIsOneRun(t *testing.T) {
	a := newApplier(t, "")
	runs := map[string]string{}
	a.hears = func(event.Event) {
		list, err := a.cluster().Leases(t.Context(), "nodejoin-demo.s")
		must(t, err)
		for _, l := range list {
			runs[l.Name], _, _ = strings.Cut(l.Holder, " ")
		}
	}
	if code := a.follow(1, fmt.Sprintf(common, "one")); code != 0 {
		t.Errorf("code %d: %q", code, a.said)
	}
	if run := runs["nodejoin-demo.slot-0"]; run == "" || run != runs["nodejoin-demo.shard-follow-win-1"] {
		t.Errorf("%v", runs)
	}
}

// pause pauses the machine, or ends that.
func (a *applier) pause(on bool) {
	a.s.t.Helper()
	h, err := a.box(a.s.t.Context(), a.is)
	must(a.s.t, err)
	x := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {})
	var p *steps.GuardPause
	if on {
		p = &steps.GuardPause{By: "ops@ctl", Since: time.Now()}
	}
	_, err = x.Pause(context.WithoutCancel(a.s.t.Context()), executor.PauseRequest{Pause: p})
	must(a.s.t, err)
}
