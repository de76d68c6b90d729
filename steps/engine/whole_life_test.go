package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/engine"
	"nodejoin/steps/kube"
)

// phase is one part of the life of a node. begin changes the plan or the machine as a person would. run is the command
// that a person starts next, however the run before it ended.
type phase struct {
	name  string
	begin func(t *testing.T, w *world)
	run   func(w *world) error
	// holds checks what must be true at the end of the phase, in every copy of the world.
	holds func(t *testing.T, w *world)
	least int // the fewest mutating calls that the phase makes
}

func applies(w *world) error {
	r, sum := w.apply(-1)
	if err := r.Hosts[0].Err; err != nil {
		return err
	}
	if h := sum.Hosts[0]; h.Err != nil {
		return fmt.Errorf("%s: %w", h.Failed, h.Err)
	}
	return nil
}

func leaves(w *world) error {
	r, sum := w.leave(-1, engine.LeaveOptions{})
	if r.Hosts[0].Err != nil {
		return r.Hosts[0].Err
	}
	if h := sum.Hosts[0]; h.Err != nil {
		return fmt.Errorf("%s: %w", h.Failed, h.Err)
	}
	return nil
}

// copyOf returns a world in dir with the settings of w. Its calls are counted separately.
func (w *world) copyOf(t *testing.T, dir string) *world {
	t.Helper()
	c := &world{t: t, dir: dir, agent: w.agent, limit: -1, one: true, downgrade: w.downgrade, bound: w.bound}
	return c
}

// movedTo is like copyOf, for a machine that may wait for its serving certificate: the cluster's request for it names
// the folder of the machine.
func (w *world) movedTo(t *testing.T, dir string) *world {
	t.Helper()
	for _, name := range []string{"cluster.json", "cluster.journal"} {
		file := filepath.Join(dir, ".sandbox", "cluster", name)
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(file, []byte(strings.ReplaceAll(string(b), w.dir, dir)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return w.copyOf(t, dir)
}

func copyTree(to, from string) error {
	return errors.Join(os.MkdirAll(to, 0o755), os.CopyFS(to, os.DirFS(from)))
}

// TestWholeLife interrupts the life of a node (join, drift that is fixed, upgrade, leave) at each mutating call of a
// host or the cluster. The next run completes what was begun, the run after it finds no changes, and in the end
// everything that was on the machine before the join is there, byte for byte.
func TestWholeLife(t *testing.T) {
	w := newWorld(t)
	w.one = true
	h, box := w.box()
	seed(t, h)
	before := snapshot(t, box)
	pod := kube.Pod{Namespace: "d", Name: "web", Controller: "ReplicaSet"}
	joined := func(version string) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			w.wantVersion("win-1", version)
			if !w.quick {
				w.mustBeQuiet()
			}
			now := snapshot(t, w.sandboxDir())
			for name, was := range before {
				// State that is not in files is one map for each kind of thing. README.txt belongs to the plan now.
				if !strings.HasPrefix(name, "state: ") && now[name] != was && name != filepath.Join("C", "k", "README.txt") {
					t.Errorf("%s is touched: %.200q, was %.200q", name, now[name], was)
				}
			}
		}
	}
	for _, p := range []phase{
		{"join", func(t *testing.T, w *world) { w.kubernetes("1.35.4") }, applies, joined("1.35.4"), 100},
		{"fix", func(t *testing.T, w *world) {
			h, dir := w.box()
			for _, err := range []error{
				os.WriteFile(filepath.Join(dir, "C", "var", "lib", "kubelet", "config.yaml"),
					[]byte("kind: KubeletConfiguration\n"), 0o644),
				os.Remove(filepath.Join(dir, "C", "etc", "kubernetes", "flannel.conf")),
				h.StopService(t.Context(), "kube-proxy"),
				h.DeleteFirewallRule(t.Context(), "nodejoin-kubelet"),
				w.cluster().SetTaints(t.Context(), "win-1", nil, w.node("win-1").Taints),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}, applies, joined("1.35.4"), 10},
		{"upgrade", func(t *testing.T, w *world) {
			w.kubernetes("1.36.3")
			if err := w.cluster().AddPod(t.Context(), "win-1", pod, ""); err != nil {
				t.Fatal(err)
			}
		}, applies, joined("1.36.3"), 15},
		{"leave", func(*testing.T, *world) {}, leaves, func(t *testing.T, w *world) {
			if d := cmp.Diff(before, snapshot(t, w.sandboxDir())); d != "" {
				t.Errorf("the machine before the join (-) and after the leave (+):\n%s", d)
			}
			if _, err := w.cluster().Node(t.Context(), "win-1"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the Node: %v", err)
			}
		}, 60},
	} {
		p.begin(t, w)
		// One run completes; on the way the world is copied at each call.
		var ended []string
		kept := t.TempDir()
		w.at = func(n int64) {
			dir := filepath.Join(kept, fmt.Sprintf("%03d", n))
			if testing.Short() && n%9 != 0 {
				return
			}
			if err := copyTree(dir, w.dir); err != nil {
				t.Error(err)
			}
			ended = append(ended, dir)
		}
		if err := p.run(w); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		w.at = nil
		if n := int(w.calls.Load()); n < p.least {
			t.Errorf("%s made %d mutating calls, want %d or more", p.name, n, p.least)
		}
		t.Run(p.name, func(t *testing.T) {
			for i, dir := range slices.Backward(ended) {
				t.Run(filepath.Base(dir), func(t *testing.T) {
					t.Parallel()
					c := w.copyOf(t, dir)
					c.quick = !testing.Short() && i%4 != 0 // skips the second run, for most copies
					if err := p.run(c); err != nil {
						t.Fatalf("the run after it: %v", err)
					}
					p.holds(t, c)
					if err := os.RemoveAll(dir); err != nil {
						t.Error(err)
					}
				})
			}
		})
		p.holds(t, w)
	}
}

// sandboxDir returns the folder of the first machine.
func (w *world) sandboxDir() string { return w.known().Nodes[0].Connection.Sandbox.Path }
