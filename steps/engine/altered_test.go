package engine_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host/sandbox"
)

// alteration changes one thing of a joined machine or of its cluster.
type alteration struct {
	name  string
	apply func(ctx context.Context, m joinedMachine) error
}

// joinedMachine is a machine with its cluster.
type joinedMachine struct {
	*sandbox.Host
	cluster  *sandbox.Cluster
	services []string // that the join has made
	dir      string   // of the sandbox
}

// others are parts of alterations' names: what belongs to a node's programs or to people, so that no plan checks it.
var others = []struct{ part, why string }{
	{"/var/log", "logs: the programs' own"},
	{"/kubelet/pki/", "certificates of the kubelet, which asks for new ones itself"},
	{"/ProgramData/nodejoin/", "what nodejoin keeps; it is written again when it is next needed"},
	{"/var/lib/nodejoin/", "what nodejoin keeps; it is written again when it is next needed"},
	{"/var/lib/cni/networks/", "reservations of CNI plugins, but for that of kube-proxy"},
	{"/chains/", "rules of the packet filter, which kube-proxy and flanneld write again within a minute"},
	{"everybody may write /etc/environment", "a file of the machine, in which nodejoin has lines"},
	{"everybody may write /run/flannel/", "flanneld writes it when it starts"},
	{"interface cni0 deleted", "a bridge that the CNI plugin makes for the next pod"},
}

// taken are parts of the names of alterations that stay, because they are somebody else's text: nodejoin's stands
// beside it.
var taken = []string{"/var/lib/cni/networks/", "/etc/environment changed"}

// TestAltered changes one thing of a joined machine and its Node at a time. The next plan finds it, and one apply
// fixes it, with at most 30 seconds of waiting: everything is as it was. Any NODEJOIN_PAIRS tests all alterations,
// otherwise a sample.
func TestAltered(t *testing.T) {
	for osName, names := range map[string][]string{
		"windows": {"csi", "exporter3", "registry", "crictl", "motd2", "objects a", "placeholder", "inherits"},
		"linux":   {"registry", "motd2", "objects a", "inherits"},
	} {
		t.Run(osName, func(t *testing.T) {
			d := planOf(osName, names...)
			for i, p := range d.parts { // one step of each kind
				if p.name == "" && len(dimensions(osName)[p.dimension]) > 1 &&
					slices.Contains(alteredToo, p.dimension) {
					d.parts[i] = dimensions(osName)[p.dimension][1]
					d.parts[i].dimension = p.dimension
				}
			}
			j := joinedFor(t, d)
			_, seed := pairs(t)
			rnd := rand.New(rand.NewPCG(seed, 2))
			every := 12
			if os.Getenv("NODEJOIN_PAIRS") != "" {
				every = 1
			}
			t.Logf("seed %d, one in %d of %d alterations", seed, every, len(j.all))
			for _, a := range j.all {
				if strings.Contains(a.name, "access") || rnd.IntN(every) == 0 {
					t.Run(a.name, bubble(func(t *testing.T) { j.altered(t, a) }))
				}
			}
		})
	}
}

var (
	errInherited = errors.New("inherited")
	errUnchanged = errors.New("unchanged")
)

// alteredToo are further dimensions that the machine has.
var alteredToo = []string{"env", "sysctl", "module", "directory", "rule", "registry", "ports", "allow", "service",
	"cas", "dynamic", "reserved", "update", "defender", "paths", "smb", "programs", "conf", "hns", "proxy", "vip",
	"labels", "taint", "cluster"}

// joined is a joined machine, to be copied and altered.
type joined struct {
	dir, agent string
	plan       drawn
	want       map[string]string
	all        []alteration
	services   []string
	took       time.Duration
}

func joinedFor(t *testing.T, d drawn) *joined {
	j := &joined{dir: filepath.Join(t.TempDir(), "w"), agent: filepath.Join(t.TempDir(), "agent"), plan: d}
	bubble(func(t *testing.T) {
		began := time.Now()
		w := newWorld(t)
		w.write(d)
		open(t, w) // creates the machine
		before := snapshot(t, w.sandboxDir())
		if err := w.applied(d); err != nil {
			t.Fatal(err)
		}
		if err := w.quiet(); err != nil {
			t.Fatal(err)
		}
		a := &altering{t: t, os: d.os, before: before, after: snapshot(t, w.sandboxDir())}
		j.all, j.services, j.want = a.all(), a.madeServices(), w.facts(t)
		j.took = time.Since(began)
		if err := errors.Join(copyTree(j.dir, w.dir), os.Rename(w.agent, j.agent)); err != nil {
			t.Fatal(err)
		}
	})(t)
	return j
}

func open(t *testing.T, w *world) *sandbox.Host {
	t.Helper()
	n := w.known().Nodes[0]
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: n.Connection.Sandbox.Path, OS: n.OS,
		Build: n.Connection.Sandbox.Build, IP: n.Connection.Sandbox.IP, IP6: n.Connection.Sandbox.IP6,
		Hostname: "win-1",
		DataDir:  n.DataDir, ClusterDir: n.Connection.Sandbox.ClusterDir})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// altered makes an alteration in a copy of the machine, in a bubble of its own.
func (j *joined) altered(t *testing.T, a alteration) {
	time.Sleep(j.took) // on the clock of the bubble: it is after the join
	dir := filepath.Join(t.TempDir(), "w")
	if err := copyTree(dir, j.dir); err != nil {
		t.Fatal(err)
	}
	w := (&world{agent: j.agent, bound: time.Hour}).copyOf(t, dir)
	m := joinedMachine{open(t, w), w.cluster(), j.services, w.sandboxDir()}
	switch err := a.apply(t.Context(), m); {
	case errors.Is(err, errInherited):
		t.Skip("it has the access of its folder, which is private")
	case errors.Is(err, errUnchanged):
		t.Skip("it is so already")
	case err != nil:
		t.Fatal(err)
	}
	r := w.check()
	seen := r.Hosts[0].Err != nil || len(r.Hosts[0].Removals.Removing()) > 0
	for _, s := range r.Hosts[0].Steps {
		seen = seen || s.Result.Err != nil || !s.Result.Change.NoOp()
	}
	if !seen {
		for _, o := range others {
			if strings.Contains(a.name, o.part) {
				t.Skip(o.why)
			}
		}
		t.Fatal("the plan does not see it")
	}
	if strings.Contains(a.name, "record.json") {
		t.Skip("nodejoin refuses a record that others may have written, and says so")
	}
	began := time.Now()
	if err := w.applied(j.plan); err != nil {
		t.Fatalf("the apply after it: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the apply after it waited for %s", took)
	}
	if err := m.DeleteService(t.Context(), theirService); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	stays := slices.ContainsFunc(taken, func(part string) bool { return strings.Contains(a.name, part) })
	if d := cmp.Diff(j.want, w.facts(t)); d != "" && !stays {
		t.Errorf("as it was joined (-), after the apply (+):\n%s", d)
	}
	if err := w.quiet(); err != nil {
		t.Error(err)
	}
}
