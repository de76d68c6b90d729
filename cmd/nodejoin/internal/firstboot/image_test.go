package firstboot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/generalize"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// TestDivide: what may be in an image, and why something is not.
func TestDivide(t *testing.T) {
	file := func(content string, more ...func(*kinds.File)) any {
		f := &kinds.File{Path: "/etc/f", Content: content}
		for _, set := range more {
			set(f)
		}
		return f
	}
	sensitive := func(f *kinds.File) { f.Sensitive = true }
	n := plan.Node{Name: "n-1", ManagementIP: "192.0.2.7", Connection: plan.Connection{Type: "ssh",
		SSH: &plan.SSH{Host: "10.9.8.7"}}}
	runtime := host.ServiceConfig{Name: "runtime", Command: []string{"/d/r"}}
	exporter := host.ServiceConfig{Name: "exporter", Command: []string{"/d/e"}}
	var want []string
	for _, c := range []struct {
		id, kind string
		args     any
		why      string // "" = it is in the image
		after    []string
	}{
		{"require", "preflight", map[string]any{}, isCluster, nil},
		{"seen", "node_seen", kinds.NodeSeen{}, isCluster, nil},
		{"token", "bootstrap_token", kinds.BootstrapToken{}, isCluster, nil},
		{"dir", "directory", &kinds.Directory{Path: "/d"}, "", []string{"require"}},
		{"plain", "file", file("of n-10, at 192.0.2.70"), "", []string{"dir"}},
		{"named", "file", file("of n-1, at all"), isMachine, nil},
		{"address", "file", file("http://192.0.2.7:80"), isMachine, nil},
		{"reached", "file", file("[10.9.8.7]"), isMachine, nil},
		{"own_ip", "file", file(steps.Ref("fact.management_ip")), isMachine, nil},
		{"arch", "file", file(steps.Ref("fact.arch") + steps.Ref("fact.systemd_cgroup")), "", nil},
		{"cluster_ca", "file", file(steps.Ref("cluster.ca")), isCluster, nil},
		{"both", "file", file(steps.Ref("cluster.ca") + steps.Ref("fact.hostname")), isMachine, nil},
		{"pod_cidr", "file", file(steps.Ref("registered.pod_cidr")), isLater, nil},
		{"pem", "file", file("-----BEGIN CERTIFICATE-----\n"), isSecret, nil},
		{"authority", "trusted_ca", &kinds.TrustedCA{Certificate: "-----BEGIN CERTIFICATE-----\n"}, "", nil},
		{"secret", "file", file("x", sensitive), isSecret, nil},
		{"after_secret", "file", file("x"), "", []string{"secret"}},
		{"after_token", "file", file("x"), isLater, []string{"token"}},
		{"after_that", "file", file("x"), isLater, []string{"after_token"}},
		{"host_name", "host_name", &kinds.HostName{Name: "other"}, isMachine, nil},
		{"runtime", "service", &kinds.Service{ServiceConfig: runtime}, "", []string{"host_name", "plain", "after_secret"}},
		{"runtime_ready", "pipe_ready", &kinds.PipeReady{Address: "/run/r"}, "", []string{"runtime"}},
		{"exporter", "service", &kinds.Service{ServiceConfig: exporter}, isLater, []string{"named"}},
		{"exporter_file", "file_ready", &kinds.FileReady{Path: "/e"}, isLater, []string{"exporter"}},
		{"after_exporter", "file", file("x"), isLater, []string{"exporter_file"}},
		{"pause", "image", &kinds.Image{Image: "pause"}, "", []string{"runtime_ready"}},
	} {
		n.Steps = append(n.Steps, steps.Spec{ID: c.id, Kind: c.kind, Args: steps.MustArgs(c.args), After: c.after})
		want = append(want, c.id+": "+c.why)
	}
	mine, later := divide(n)
	why := map[string]string{}
	for _, l := range later {
		why[l.ID] = l.why
	}
	for _, s := range mine {
		for _, id := range s.After {
			if why[id] != "" {
				t.Errorf("%s comes after %s, which is left out", s.ID, id)
			}
		}
	}
	var have []string
	for _, s := range n.Steps {
		have = append(have, s.ID+": "+why[s.ID])
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	req := generalization(n) // only its own secrets are sent to a machine
	if diff := cmp.Diff([]string{"dir", "plain", "arch", "authority", "after_secret", "runtime", "runtime_ready",
		"pause"}, req.Steps); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"x"}, req.Secrets); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"192.0.2.7", "10.9.8.7"}, req.Addresses); diff != "" {
		t.Error(diff)
	}
	n.Connection.SSH.Host = "127.0.0.1"
	if diff := cmp.Diff([]string{"192.0.2.7"}, addresses(n)); diff != "" {
		t.Errorf("every machine has a loopback address: %s", diff)
	}
}

// TestHere: a bake of the machine that it runs on leaves no note about its run there, removes those of a bake that was
// killed, and does not begin beside earlier ones.
func TestHere(t *testing.T) {
	state, temp := t.TempDir(), t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp) // on Windows
	killed := filepath.Join(temp, "nodejoin-bake-123", "nodejoin", "history", "plan")
	other := filepath.Join(temp, "nodejoin-bundle-123")
	for _, dir := range []string{killed, other} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	notes, err := here("n-1")
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) != 2 || slices.Contains(left, filepath.Dir(filepath.Dir(filepath.Dir(killed)))) ||
		!slices.Contains(left, other) {
		t.Errorf("%v, %v: want what is not of a bake, and the notes of this one", left, err)
	}
	if during, err := history.In(notes); err != nil || during != notes || !slices.Contains(left, notes) {
		t.Errorf("the run is noted in %s, not in %s: %v", during, notes, err)
	}
	root, err := history.Root()
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, "plan"), 0o700)
	}
	if err != nil || !strings.HasPrefix(root, state) {
		t.Fatal(root, err)
	}
	if _, err := here("n-1"); err == nil || !strings.Contains(err.Error(), "not fit to be an image") {
		t.Errorf("%v, want that earlier runs are refused", err)
	}
}

// TestResultHere: on the machine itself the plan stays, and what nodejoin has unpacked of it.
func TestResultHere(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	for connection, want := range map[string]bool{"local": true, "ssh": false} {
		var said strings.Builder
		x := &baking{App: App{Say: func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }}}
		x.result(plan.Node{Name: "n-1", OS: "linux", Connection: plan.Connection{Type: connection}}, generalize.Reply{})
		stays := "unpacked in its cache (" + filepath.Join(cache, "nodejoin") + ") are on it"
		if have := strings.Contains(said.String(), stays); have != want {
			t.Errorf("%s:\n%s", connection, said.String())
		}
	}
}
