package engine_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// world is the quickstart plan in a folder of its own. It can stop all processes after a number of mutating calls.
type world struct {
	t     testing.TB
	dir   string
	agent string
	// limit is the number of mutating calls (of hosts and cluster) after which everything fails, as if the process had
	// been killed. Negative means never.
	limit int64
	calls atomic.Int64
	one   bool // only the first node
	at    func(done int64)
	drops atomic.Int64 // connection losses to inject, one in each of the next applies
	// before is called before each batch of host steps; may be nil.
	before func(req executor.Request)
	// checkDrops is the same for checks.
	checkDrops atomic.Int64
	events     []event.Event
	quick      bool
	members    []string       // names of all nodes; compile sets it
	last       *plan.Compiled // what compile has returned
	lastOf     string         // and the source of it

	bound         time.Duration // of one apply, default an hour
	parallel      int
	downgrade     bool
	drain         kube.DrainOptions
	ends          bool               // the kubelet of the next archive exits at once
	broken        map[string]string  // programs that exit, as in sandbox.Config
	cancel        context.CancelFunc // cancels the running apply
	skip          []string           // nodes that --skip names
	heard         func(event.Event)  // gets each event; may be nil
	now           func() time.Time   // of engine.Options
	holder        steps.LockHolder   // of engine.Options
	shard, group  string             // of engine.Options
	nodesListed   atomic.Int64       // requests for all Nodes
	leasesTried   sync.Map           // names of Leases that it tried to take
	unreleased    string             // part of the names of Leases that stay; "" = none
	environment   string             // of plan.Options
	asked         *asked             // counts what is asked of what nodes share; nil = not counted
	boots         *slowBoot          // how machines reboot; nil = at once
	lostRollbacks int                // replies to rollbacks that are lost
	cut           bool               // ... and the connection is lost with them
	away          bool               // no machine answers
	self          string             // the node whose machine nodejoin runs on
	resume        func(plan.Node, host.Facts) (*engine.Resume, error)
}

var errKilled = errors.New("killed")

func newWorld(t testing.TB) *world {
	w := &world{t: t, dir: t.TempDir(), limit: -1}
	src := filepath.Join("..", "..", "examples", "quickstart")
	err := filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(src, p)
		if d.IsDir() {
			if d.Name() == ".sandbox" {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(w.dir, rel), 0o755)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(w.dir, rel), b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.pin()
	w.agent = filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(w.agent, []byte("stand-in"), 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

// pin gives the plan the digests of its artifacts in place of its lock, so that tests can put other artifacts and
// versions into it.
func (w *world) pin() {
	w.t.Helper()
	mirror := filepath.Join(w.dir, "mirror")
	var list strings.Builder
	for _, a := range []struct{ name, before, after, file string }{
		{"kubernetes_node", " ", " ", "kubernetes-node-windows-amd64.tar.gz"},
		{"containerd", " ", " ", "containerd-2.2.1-windows-amd64.tar.gz"},
		{"cni_plugins", "\n  version = \"1.9.1\"\n  ", "\n", "cni-plugins-windows-amd64-v1.9.1.tgz"},
		{"flannel_cni", " ", " ", "flannel-amd64.exe"}, {"flanneld", " ", " ", "flanneld.exe"},
	} {
		sum := sha256File(w.t, filepath.Join(mirror, a.file))
		fmt.Fprintf(&list, "artifact %q {%ssha256 = %q%s}\n", a.name, a.before, sum, a.after)
	}
	w.edit(`artifact "cni_plugins" .*\n`, list.String())
	if err := os.Remove(filepath.Join(w.dir, "nodejoin.lock.hcl")); err != nil {
		w.t.Fatal(err)
	}
}

// program stands for nodejoin-agent, and for nodejoin.
func (w *world) program(_, _, _ string) (steps.Source, error) {
	return steps.Source{File: w.agent, SHA256: sha256File(w.t, w.agent)}, nil
}

func (w *world) compile() *plan.Compiled {
	w.t.Helper()
	p, diags := plan.Load(w.dir, plan.Options{Version: "0.1.0", Agent: w.program, Self: w.program, Env: drawnEnv,
		Environment: w.environment})
	if diags.HasErrors() {
		w.t.Fatal(diags)
	}
	c, diags := p.Compile()
	if diags.HasErrors() {
		w.t.Fatal(diags)
	}
	w.members = []string{}
	for _, n := range c.Nodes {
		w.members = append(w.members, n.Name)
	}
	if w.one {
		c.Nodes = c.Nodes[:1]
	}
	c.Nodes = slices.DeleteFunc(c.Nodes, func(n plan.Node) bool { return slices.Contains(w.skip, n.Name) })
	for i := range c.Nodes {
		if c.Nodes[i].Name == w.self {
			c.Nodes[i].Connection.Type = "local" // Connect opens its sandbox
		}
	}
	w.last, w.lastOf = c, w.source()
	return c
}

// known returns the plan for its names and paths, not for a run: the one that was compiled last, while its source is
// the same. Half of the plans that tests compile would be for that.
func (w *world) known() *plan.Compiled {
	w.t.Helper()
	if w.last == nil || w.lastOf != w.source() {
		return w.compile()
	}
	return w.last
}

// source is everything that compile makes a plan of, but the agent.
func (w *world) source() string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "*.hcl"))
	if err != nil {
		w.t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%v %q %q\n", w.one, w.skip, w.self)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&out, "%q %d\n%s", f, len(b), b)
	}
	return out.String()
}

func (w *world) killed() error {
	n := w.calls.Add(1)
	if w.at != nil {
		w.at(n - 1)
	}
	if w.limit >= 0 && n > w.limit {
		return errKilled
	}
	return nil
}

func (w *world) session(c *plan.Compiled) *engine.Session {
	return engine.New(c, engine.Options{
		Parallel:       max(1, w.parallel),
		AllowDowngrade: w.downgrade,
		Drain:          w.drain,
		Members:        w.members,
		Now:            w.now,
		Holder:         w.holder,
		Shard:          w.shard,
		Group:          w.group,
		Resume:         w.resume,
		Emit: func(e event.Event) {
			w.events = append(w.events, e)
			w.noSecretTold(e)
			if w.heard != nil {
				w.heard(e)
			}
		},
		Cluster: func(ctx context.Context) (kube.API, error) {
			api, err := sandbox.OpenCluster(context.Background(), sandbox.ClusterConfig{Dir: c.Cluster.Sandbox,
				PodCIDR: c.Cluster.PodCIDR})
			if err != nil {
				return nil, err
			}
			return killableCluster{api, w}, nil
		},
		Connect: func(ctx context.Context, n plan.Node) (transport.Conn, error) {
			if err := w.boots.connect(n.Name); err != nil {
				return nil, err
			}
			if w.away {
				return nil, &transport.ConnectError{Reason: transport.ReasonUnreachable, Host: n.Name, Summary: "no answer"}
			}
			s := n.Connection.Sandbox
			h, err := sandbox.Open(context.Background(), sandbox.Config{Path: s.Path, OS: n.OS, Build: s.Build, IP: s.IP,
				IP6: s.IP6, Hostname: n.Name, DataDir: n.DataDir, ClusterDir: s.ClusterDir, Broken: w.broken})
			if err != nil {
				return nil, err
			}
			k := host.Intercept(w.boots.of(h), func(op, subject string) error { return w.killed() })
			if w.boots != nil {
				return &bootingConn{Conn: transport.NewLocal(k, artifact.New(artifact.Options{Direct: true}),
					h.LockDir()), s: w.boots, h: h}, nil
			}
			return &flaky{Conn: transport.NewLocal(k, artifact.New(artifact.Options{Direct: true}), h.LockDir()), w: w}, nil
		},
	})
}

// apply runs one complete apply and returns its report and summary.
func (w *world) apply(limit int64) (*engine.Report, *engine.Summary) {
	w.t.Helper()
	w.limit = limit
	w.calls.Store(0)
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(w.bound, time.Hour)) // longer than any wait
	defer cancel()
	w.cancel = cancel
	c := w.compile()
	s := w.session(c)
	defer s.Close()
	r := s.Check(ctx)
	sum := s.Apply(ctx)
	w.noSecretKept(c, sum)
	return r, sum
}

func (w *world) mustConverge() *engine.Summary {
	w.t.Helper()
	r, sum := w.apply(-1)
	for _, h := range r.Hosts {
		if h.Err != nil {
			w.t.Fatalf("check of %s: %v", h.Node.Name, h.Err)
		}
		if h.Mutations != 0 {
			w.t.Errorf("a check made %d mutating calls", h.Mutations)
		}
	}
	for _, h := range sum.Hosts {
		if h.Err != nil {
			w.t.Fatalf("apply of %s, step %s: %v", h.Node, h.Failed, h.Err)
		}
	}
	return sum
}

func (w *world) mustBeQuiet() {
	w.t.Helper()
	r, sum := w.apply(-1)
	for _, h := range r.Hosts {
		for _, s := range h.Steps {
			if s.Result.Err != nil || !s.Result.Change.NoOp() {
				w.t.Errorf("%s.%s is not in order: %+v %v", h.Node.Name, s.Spec.ID, s.Result.Change, s.Result.Err)
			}
		}
	}
	for _, h := range sum.Hosts {
		if h.Err != nil || len(h.Changed) > 0 || h.Mutations > 0 {
			w.t.Errorf("%s: changed %v, %d mutating calls, %v", h.Node, h.Changed, h.Mutations, h.Err)
		}
	}
	if n := w.calls.Load(); n != 0 {
		w.t.Errorf("%d mutating calls on hosts and cluster", n)
	}
}

// flaky loses its connection in the middle of an apply while the world asks for it.
type flaky struct {
	transport.Conn
	w *world
}

func (f *flaky) Do(ctx context.Context, m wire.Message, emit func(event.Event)) error {
	switch m.Method() {
	case wire.Check.Method:
		if f.w.checkDrops.Load() > 0 {
			f.w.checkDrops.Add(-1)
			return transport.ErrDropped
		}
	case wire.Apply.Method:
		req := *m.Request().(*executor.Request)
		if f.w.before != nil {
			f.w.before(req)
		}
		if f.w.drops.Load() > 0 {
			f.w.drops.Add(-1)
			if len(req.Steps) > 2 {
				req.Steps = req.Steps[:len(req.Steps)/2]
				if _, err := transport.Do(ctx, f.Conn, wire.Apply, req, emit); err != nil {
					return err
				}
			}
			return transport.ErrDropped
		}
	case wire.Rollback.Method: // the call is done and its reply is lost
		err := f.Conn.Do(ctx, m, emit)
		if err == nil && f.w.lostRollbacks > 0 {
			f.w.lostRollbacks--
			f.w.away = f.w.cut
			return transport.ErrDropped
		}
		return err
	}
	return f.Conn.Do(ctx, m, emit)
}

// killableCluster also counts the cluster's mutating calls.
type killableCluster struct {
	kube.API
	w *world
}

func (k killableCluster) MintToken(ctx context.Context, node string, ttl time.Duration) (kube.BootstrapToken, error) {
	if err := k.w.killed(); err != nil {
		return kube.BootstrapToken{}, err
	}
	return k.API.MintToken(ctx, node, ttl)
}

func (k killableCluster) RevokeToken(ctx context.Context, id string) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.RevokeToken(ctx, id)
}

func (k killableCluster) EnsureServiceAccount(ctx context.Context, want kube.ServiceAccount) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.EnsureServiceAccount(ctx, want)
}

func (k killableCluster) ApplyManifest(ctx context.Context, want kube.Manifest) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.ApplyManifest(ctx, want)
}

func (k killableCluster) DeleteObject(ctx context.Context, m kube.Member) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.DeleteObject(ctx, m)
}

func (k killableCluster) ServiceAccountToken(ctx context.Context, want kube.TokenRequest) (string, time.Time, error) {
	if err := k.w.killed(); err != nil {
		return "", time.Time{}, err
	}
	return k.API.ServiceAccountToken(ctx, want)
}

func (k killableCluster) SetLabels(ctx context.Context, node string, set map[string]string, remove []string) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.SetLabels(ctx, node, set, remove)
}

func (k killableCluster) SetTaints(ctx context.Context, node string, set, remove []kube.Taint) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.SetTaints(ctx, node, set, remove)
}

func (k killableCluster) SetAnnotations(ctx context.Context, node string, set map[string]string,
	remove []string) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.SetAnnotations(ctx, node, set, remove)
}

func sha256File(t testing.TB, path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
