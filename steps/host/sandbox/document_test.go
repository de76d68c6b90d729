package sandbox

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// crowded is a cluster that counts as too large to be rewritten for each call.
func crowded(t *testing.T) *Cluster {
	t.Helper()
	k, err := OpenCluster(t.Context(), ClusterConfig{Dir: t.TempDir()})
	must(t, err)
	k.state.large = 8 << 10
	for i := 0; fileSize(k.state.journal) == 0; i++ {
		if i > 1000 {
			t.Fatal("the cluster has no journal")
		}
		putNode(t, k, fmt.Sprintf("old-%d", i))
	}
	return k
}

func putNode(t *testing.T, k *Cluster, name string) {
	t.Helper()
	must(t, k.PutNode(t.Context(), kube.Node{Name: name, UID: "uid-" + name, Labels: map[string]string{"a": "b"}}))
}

func fileSize(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// another is the same cluster, opened as another process would open it.
func another(k *Cluster) *Cluster {
	d := k.state
	fresh := &document{path: d.path, journal: d.journal, lock: d.lock, empty: d.empty, large: d.large,
		free: make(chan struct{}, 1)}
	fresh.free <- struct{}{}
	return &Cluster{dir: k.dir, state: fresh}
}

func nodeNames(t *testing.T, k *Cluster) map[string]bool {
	t.Helper()
	nodes, err := k.Nodes(t.Context())
	must(t, err)
	out := map[string]bool{}
	for _, n := range nodes {
		out[n.Name] = true
	}
	return out
}

// A call on a large cluster writes only what it changes, and another process reads that.
func TestJournal(t *testing.T) {
	k := crowded(t)
	other := another(k)
	want := nodeNames(t, k)
	if diff := cmp.Diff(want, nodeNames(t, other)); diff != "" {
		t.Error(diff)
	}
	before, lines := fileSize(k.state.path), fileSize(k.state.journal)
	putNode(t, k, "new")
	must(t, other.DeleteNode(t.Context(), "old-0", "uid-old-0"))
	must(t, k.SetLabels(t.Context(), "old-1", map[string]string{"c": "d"}, []string{"a"}))
	if now := fileSize(k.state.journal); fileSize(k.state.path) != before || now <= lines || now > lines+1000 {
		t.Errorf("the file grew from %d to %d bytes, the journal from %d to %d", before, fileSize(k.state.path), lines, now)
	}
	want["new"] = true
	delete(want, "old-0")
	for _, c := range []*Cluster{k, other, another(k)} {
		if diff := cmp.Diff(want, nodeNames(t, c)); diff != "" {
			t.Error(diff)
		}
		n, err := c.Node(t.Context(), "old-1")
		if err != nil || !maps.Equal(n.Labels, map[string]string{"c": "d"}) {
			t.Errorf("%v, %v", n.Labels, err)
		}
	}
}

// The journal is folded into the file, and other processes notice.
func TestJournalIsFolded(t *testing.T) {
	k := crowded(t)
	other := another(k)
	want := nodeNames(t, other)
	folded := 0
	for i := range 300 {
		name := fmt.Sprintf("new-%d", i)
		before := fileSize(k.state.journal)
		putNode(t, k, name)
		want[name] = true
		if now := fileSize(k.state.journal); now < before {
			folded++
			if diff := cmp.Diff(want, nodeNames(t, other)); diff != "" {
				t.Error(diff)
			}
		} else if now > fileSize(k.state.path) {
			t.Fatalf("a journal of %d bytes beside a file of %d", now, fileSize(k.state.path))
		}
	}
	if folded == 0 || folded > 10 {
		t.Errorf("the journal was folded into the file %d times", folded)
	}
	if diff := cmp.Diff(want, nodeNames(t, another(k))); diff != "" {
		t.Error(diff)
	}
}

// A process that is killed while it appends leaves part of a line. That part is ignored, and the next line
// overwrites it.
func TestJournalWithTornLine(t *testing.T) {
	k := crowded(t)
	want := nodeNames(t, k)
	f, err := os.OpenFile(k.state.journal, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"nodes": {"torn": {"Name": "to`)
	must(t, err)
	must(t, f.Close())
	for _, c := range []*Cluster{k, another(k)} {
		if diff := cmp.Diff(want, nodeNames(t, c)); diff != "" {
			t.Error(diff)
		}
	}
	writer := another(k)
	putNode(t, writer, "new")
	want["new"] = true
	for _, c := range []*Cluster{k, writer, another(k)} {
		if diff := cmp.Diff(want, nodeNames(t, c)); diff != "" {
			t.Error(diff)
		}
	}
}

// A process that is killed after it has folded the journal into the file leaves both files.
func TestJournalOutlivesItsFolding(t *testing.T) {
	k := crowded(t)
	lines, err := os.ReadFile(k.state.journal)
	must(t, err)
	must(t, k.SetDown(t.Context(), false)) // changes nothing
	must(t, k.Upgrade(t.Context(), "v1.37.0"))
	want := nodeNames(t, k)
	if fileSize(k.state.journal) != 0 {
		t.Fatal("the journal is still there")
	}
	must(t, os.WriteFile(k.state.journal, lines, 0o600))
	for _, c := range []*Cluster{k, another(k)} {
		if diff := cmp.Diff(want, nodeNames(t, c)); diff != "" {
			t.Error(diff)
		}
		if info, err := c.Info(t.Context()); err != nil || info.Version != "v1.37.0" {
			t.Errorf("%s, %v", info.Version, err)
		}
	}
}

// A manual edit of the files takes effect at once; a failed call changes nothing.
func TestDocumentFollowsItsFile(t *testing.T) {
	k := crowded(t)
	raw, err := os.ReadFile(k.state.path)
	must(t, err)
	must(t, os.WriteFile(k.state.path,
		bytes.Replace(raw, []byte(`"version": "v1.36.3"`), []byte(`"version": "v1.36.4"`), 1), 0o600))
	if info, err := k.Info(t.Context()); err != nil || info.Version != "v1.36.4" {
		t.Errorf("%s, %v", info.Version, err)
	}
	err = k.change(t.Context(), func(s *clusterState) error {
		s.Version = "v9.9.9"
		s.Nodes.remove("old-1")
		return fs.ErrPermission
	})
	if info, infoErr := k.Info(t.Context()); err == nil || infoErr != nil || info.Version != "v1.36.4" ||
		!nodeNames(t, k)["old-1"] {
		t.Errorf("%v; %s, %v", err, info.Version, infoErr)
	}
	must(t, os.Remove(k.state.path))
	must(t, os.Remove(k.state.journal))
	if names := nodeNames(t, k); len(names) != 0 {
		t.Errorf("nodes of a cluster that was deleted: %v", names)
	}
}

// Callers may change what they get.
func TestStateIsNotShared(t *testing.T) {
	h := open(t, Config{Path: filepath.Join(t.TempDir(), "m")})
	write(t, h, `C:\k\program.exe`, "program")
	serve(t, h, "a", []string{"b"}, `C:\k\program.exe`, "x")
	const key, name = `HKLM\SOFTWARE\x`, "list"
	value := host.RegistryValue{Type: "multi_string", Strings: []string{"one"}}
	must(t, h.SetRegistryValue(t.Context(), key, name, value))
	value.Strings[0] = "changed"
	for range 2 {
		v, err := h.RegistryValue(t.Context(), key, name)
		must(t, err)
		svc, err := h.Service(t.Context(), "a")
		must(t, err)
		if v.Strings[0] != "one" || svc.Command[1] != "x" || svc.DependsOn[0] != "b" {
			t.Errorf("%v, %v", v, svc)
		}
		v.Strings[0], svc.Command[1], svc.DependsOn[0] = "changed", "changed", "changed"
	}
	k, err := OpenCluster(t.Context(), ClusterConfig{Dir: t.TempDir()})
	must(t, err)
	putNode(t, k, "n")
	for range 2 {
		n, err := k.Node(t.Context(), "n")
		must(t, err)
		nodes, err := k.Nodes(t.Context())
		must(t, err)
		if n.Labels["a"] != "b" || nodes[0].Labels["a"] != "b" {
			t.Errorf("%v, %v", n, nodes)
		}
		n.Labels["a"], nodes[0].Labels["a"] = "changed", "changed"
	}
}
