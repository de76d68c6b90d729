package pull

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/steps/engine"
	"nodejoin/steps/host/hosttest"
	"nodejoin/steps/kube"
)

func TestMain(m *testing.M) {
	hosttest.InMemory()
	os.Exit(m.Run())
}

// TestFollowHours: where a rollout takes longer than a round waits, a node whose round has ended goes on in the next.
// The time is simulated, and so are the applies, of three minutes each; TestFiftyFollow of the acceptance tests has
// real ones.
func TestFollowHours(t *testing.T) {
	s := newSite(t)
	s.rollout.MaxUnavailable, s.drains = 1, true
	s.publish(1, "first")
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		began := time.Now()
		var nodes []*node
		for i := range 50 {
			n := s.node(fmt.Sprintf("n-%02d", i))
			n.file.Jitter = "10m"
			nodes = append(nodes, n)
		}
		for range 5 {
			var wg sync.WaitGroup
			for _, n := range nodes {
				wg.Go(func() {
					if code := n.round(t.Context()); code != 0 {
						t.Errorf("%s: code %d: %q", n.name, code, n.said)
					}
				})
			}
			wg.Wait()
		}
		for _, n := range nodes {
			n.want("True", "Applied", "release 1, signed by ops", 1, "first")
		}
		if most, out := int(s.most.Load()), int(s.out.Load()); most != 1 || out != 1 {
			t.Errorf("%d nodes applied at the same time, and %d were out of service", most, out)
		}
		if took := time.Since(began); took < 2*longestTry {
			t.Errorf("it took %v, and a round waits for %v", took, longestTry)
		}
		leases, err := s.cluster.Leases(t.Context(), "nodejoin-")
		if err != nil || len(leases) != 0 {
			t.Errorf("%+v, %v", leases, err)
		}
	})
}

// slot is the first slot of the rollout.
const slot = "nodejoin-e-demo.slot-0"

// TestFollowRefuses: a release that is not to be trusted, or cannot be fetched whole, changes nothing and is reported.
// The next good one is applied.
func TestFollowRefuses(t *testing.T) {
	s := newSite(t)
	release, bundle := filepath.Join(s.dir, "prod.tar.release"), filepath.Join(s.dir, "prod.tar")
	write := func(file string, b []byte) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(file string) []byte {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	n := s.node("n")
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(10, "first")
		if code := n.round(t.Context()); code != 0 {
			t.Fatalf("code %d: %q", code, n.said)
		}
		applied := []string{"first"}
		serial := int64(20)
		last := int64(10)
		for _, c := range []struct {
			name           string
			change         func()
			code           int
			status, reason string
			message        string
		}{
			{"unsigned", func() { b := read(release); write(release, b[strings.Index(string(b), "{"):]) }, 1, "False",
				"Refused", "it is not signed"},
			{"older", func() { s.publish(9, "older") }, 1, "False", "Refused", "release 9 is older than release"},
			{"another of the same serial", func() { s.publish(last, "other") }, 1, "False", "Refused",
				"already names another bundle"},
			{"wrong key", func() {
				r := Release{Version: 1, Plan: "prod", Serial: 99, Bundle: "prod.tar", Size: 1, SHA256: strings.Repeat("0", 64)}
				text, err := r.text()
				must(t, err)
				b, err := sign(s.other, text)
				must(t, err)
				write(release, append(b, text...))
			}, 1, "False", "Refused", "of a key that is not trusted here"},
			{"another plan", func() {
				if _, _, err := signed(t, Signing{Key: s.key, Plan: "stage", Serial: 99}, bundle); err != nil {
					t.Fatal(err)
				}
			}, 1, "False", "Refused", `is of the plan "stage", and this node follows "prod"`},
			{"changed release", func() {
				write(release, []byte(strings.Replace(string(read(release)), "prod.tar", "evil.tar", 1)))
			}, 1, "False", "Refused", "was changed after it was signed"},
			{"half of the release", func() { b := read(release); write(release, b[:len(b)/2]) }, 1, "False", "Refused",
				"it is not signed"},
			{"too large", func() { write(release, make([]byte, maxRelease+1)) }, 1, "False", "Refused", "something else"},
			{"half of the bundle", func() { write(bundle, []byte("ne")) }, 4, "Unknown", "NotFetched", "is cut: 2 of 4 bytes"},
			{"another bundle", func() { write(bundle, []byte("evil")) }, 1, "False", "Refused",
				"is another file than was signed"},
			{"longer bundle", func() { write(bundle, []byte("next and more")) }, 1, "False", "Refused",
				"is another file than was signed"},
			{"no bundle", func() { must(t, os.Remove(bundle)) }, 4, "Unknown", "NotFetched", "prod.tar"},
			{"no release", func() { must(t, os.Remove(release)) }, 4, "Unknown", "NotFetched", "prod.tar.release"},
			{"no keys", func() { must(t, os.Rename(s.keys, s.keys+"~")) }, 1, "False", "Failed", "allowed_signers"},
		} {
			serial++
			s.publish(serial, "next")
			c.change()
			if code := n.round(t.Context()); code != c.code {
				t.Errorf("%s: code %d, want %d: %q", c.name, code, c.code, n.said)
			}
			n.want(c.status, c.reason, c.message, last, applied...)
			if c.name == "no keys" {
				must(t, os.Rename(s.keys+"~", s.keys))
			}
			s.publish(serial, "next")
			if code := n.round(t.Context()); code != 0 {
				t.Errorf("%s: then code %d: %q", c.name, code, n.said)
			}
			applied, last = append(applied, "next"), serial
			n.want("True", "Applied", "signed by ops", last, applied...)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFollowServer: over HTTP the bundle is beside the release. A server that does not answer, or only in part,
// changes nothing.
func TestFollowServer(t *testing.T) {
	s := newSite(t)
	s.publish(1, strings.Repeat("x", 100))
	var cut, off atomic.Bool
	files := http.FileServer(http.Dir(s.dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case off.Load():
			w.WriteHeader(http.StatusNotFound)
		case cut.Load() && strings.HasSuffix(r.URL.Path, ".tar"):
			_, _ = w.Write([]byte("half"))
		default:
			files.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	n := s.node("n")
	n.file.Source = server.URL + "/prod.tar.release?as=is"
	cut.Store(true)
	if code := n.round(t.Context()); code != 4 {
		t.Errorf("code %d: %q", code, n.said)
	}
	n.want("Unknown", "NotFetched", "is cut: 4 of 100 bytes", 0)
	off.Store(true)
	if code := n.round(t.Context()); code != 4 {
		t.Errorf("code %d: %q", code, n.said)
	}
	n.want("Unknown", "NotFetched", "404", 0)
}

// TestFollowWaits: outside its window, while another node is at work, and after one has failed, a node waits.
func TestFollowWaits(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) { // begins on a Saturday, at midnight
		s.t = t
		s.publish(1, "first")
		a, b := s.node("a"), s.node("b")
		a.file.Windows = []string{"01:00-02:00"}
		if code := a.round(t.Context()); code != 0 {
			t.Errorf("code %d", code)
		}
		a.want("False", "Waiting", "release 1 waits for its window", 0)
		time.Sleep(59 * time.Minute)
		lease := kube.Lease{Name: slot, Note: "c", Holder: "run c", Duration: 3 * time.Hour, Renewed: time.Now()}
		if _, err := s.cluster.TakeLease(t.Context(), lease, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		began := time.Now()
		if code := a.round(t.Context()); code != 0 {
			t.Errorf("code %d", code)
		}
		a.want("False", "Waiting", "release 1 waits for its window", 0)
		const taken = "its turn: all slots of the rollout are taken: c"
		if text := strings.Join(a.said, "\n"); !strings.Contains(text, taken) {
			t.Errorf("said %s", text)
		}
		if took := time.Since(began); took < 58*time.Minute || took > 61*time.Minute {
			t.Errorf("it waited for %v", took)
		}
		must(t, s.cluster.ReleaseLease(t.Context(), lease.Name, lease.Holder))

		bundle := filepath.Join(s.dir, "prod.tar") // is not fetched again
		must(t, os.Rename(bundle, bundle+"~"))
		a.file.Windows, s.outcome["a"] = nil, firstboot.Failed
		if code := a.round(t.Context()); code != 1 {
			t.Errorf("code %d", code)
		}
		must(t, os.Rename(bundle+"~", bundle))
		a.want("False", "ApplyFailed", "ended with exit code 1", 0, "first")
		if code := b.round(t.Context()); code != 0 {
			t.Errorf("code %d", code)
		}
		b.want("False", "Waiting", "release 1 waits: the rollout stopped after 1 failure (a)", 0)
		s.outcome["a"] = firstboot.Rebooting
		if code := a.round(t.Context()); code != 6 {
			t.Errorf("code %d", code)
		}
		a.want("False", "RebootPending", "must be rebooted", 0, "first", "first")
		s.outcome["a"] = firstboot.Waiting
		if code := a.round(t.Context()); code != 7 {
			t.Errorf("code %d", code)
		}
		a.want("False", "Waiting", "ended with exit code 7", 0, "first", "first", "first")
		s.outcome["a"] = firstboot.Finished
		if code := a.round(t.Context()) + b.round(t.Context()); code != 0 {
			t.Errorf("code %d", code)
		}
		a.want("True", "Applied", "release 1", 1, "first", "first", "first", "first")
		b.want("True", "Applied", "release 1", 1, "first")
	})
}

// TestFollowBegun: a release whose apply was cut off counts: an older one is refused.
func TestFollowBegun(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		n := s.node("n")
		s.publish(2, "new")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		b, err := json.Marshal(n.file)
		must(t, err)
		must(t, os.WriteFile(n.Path, b, 0o600))
		n.Run = &Run{Path: n.Path, Say: func(string) {}, Apply: func(ctx context.Context, _ []string) (int,
			firstboot.Outcome) {
			must(t, n.Prepare(ctx, n.plan()))
			<-ctx.Done()
			return 130, firstboot.Failed
		}, Open: func(context.Context, *File) (kube.API, error) { return s.cluster, nil }}
		if _, err := n.Do(ctx); err == nil {
			t.Error("no error")
		}
		s.publish(1, "old")
		if code := n.round(t.Context()); code != 1 {
			t.Errorf("code %d", code)
		}
		n.want("False", "Refused", "release 1 is older than release 2", 0)
	})
}

// TestFollowNotJoined: a machine that is not in the cluster does not join by itself.
func TestFollowNotJoined(t *testing.T) {
	s := newSite(t)
	s.publish(1, "first")
	n := s.machine("n")
	if code := n.round(t.Context()); code != 1 || len(s.applied) > 0 ||
		!strings.Contains(strings.Join(n.said, "\n"), "Refused: the machine has not joined") {
		t.Errorf("code %d, %v: %q", code, s.applied, n.said)
	}
	open := func(context.Context) (kube.API, error) { return s.cluster, nil }
	api, err := (&Run{file: &File{Node: "n"}}).Options(nil, engine.Options{Cluster: open}).Cluster(t.Context())
	must(t, err)
	if _, err := api.MintToken(t.Context(), "n", time.Hour); err == nil {
		t.Error("a token is minted")
	}
	if list, err := api.BootstrapTokens(t.Context(), "n"); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestFollowFile: what is wrong in the file of a node is said.
func TestFollowFile(t *testing.T) {
	good := File{Version: 1, Node: "n", Plan: "p", Source: "https://files.example/p.tar.release",
		Signers: t.TempDir(), Kubeconfig: t.TempDir()}
	for want, change := range map[string]func(*File){
		"version 2":                             func(f *File) { f.Version = 2 },
		"node and plan must be set":             func(f *File) { f.Node = "" },
		"signers is \"x\"":                      func(f *File) { f.Signers = "x" },
		"exactly one of kubeconfig and sandbox": func(f *File) { f.Sandbox = f.Kubeconfig },
		"\"k\" must be an absolute path":        func(f *File) { f.Kubeconfig = "k" },
		"windows: \"always\" is not a time":     func(f *File) { f.Windows = []string{"always"} },
		"jitter is \"7h\"":                      func(f *File) { f.Jitter = "7h" },
		"source is \"http://files.example/p\"":  func(f *File) { f.Source = "http://files.example/p" },
		"source is \"p.tar\"":                   func(f *File) { f.Source = "p.tar" },
		"login is for a source on a server":     func(f *File) { f.Source, f.Login = f.Signers, f.Signers },
	} {
		f := good
		change(&f)
		b, err := json.Marshal(f)
		must(t, err)
		at := filepath.Join(t.TempDir(), "f")
		must(t, os.WriteFile(at, b, 0o600))
		_, err = ReadFile(at)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), at) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for text, want := range map[string]string{"{": "f: ", `{"version": 1,}`: "wrong at byte 15",
		`{"more": 1}`: `unknown field "more"`} {
		at := filepath.Join(t.TempDir(), "f")
		must(t, os.WriteFile(at, []byte(text), 0o600))
		if _, err := ReadFile(at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
