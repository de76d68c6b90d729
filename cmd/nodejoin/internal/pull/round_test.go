package pull

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/steps/kube"
)

// TestFollowNoMore: a round that waits for its turn says so on its Node. If its file goes, as in a
// leave, or changes meanwhile, it applies nothing.
func TestFollowNoMore(t *testing.T) {
	for name, change := range map[string]func(file string) error{
		"removed": func(file string) error { return errors.Join(os.Remove(file), os.Remove(file+".state")) },
		"changed": func(file string) error { return os.WriteFile(file, []byte("{}"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			synctest.Test(t, func(t *testing.T) {
				s.t = t
				s.publish(1, "first")
				n := s.node("n")
				lease := kube.Lease{Name: slot, Note: "other", Holder: "another run", Duration: time.Minute,
					Renewed: time.Now()}
				if _, err := s.cluster.TakeLease(t.Context(), lease, ""); err != nil {
					t.Fatal(err)
				}
				done := make(chan int)
				go func() { done <- n.round(t.Context()) }()
				time.Sleep(30 * time.Second)
				synctest.Wait()
				n.want("False", "Waiting", "release 1 waits for its turn: all slots of the rollout are taken: other", 0)
				if err := change(n.Path); err != nil {
					t.Fatal(err)
				}
				if code := <-done; code != 0 || len(s.applied["n"]) > 0 {
					t.Errorf("code %d, applied %q: %q", code, s.applied["n"], n.said)
				}
				if text := strings.Join(n.said, "\n"); !strings.Contains(text, "the file of this one has changed") {
					t.Errorf("said %s", text)
				}
				if _, err := os.Stat(n.Path + ".state"); errors.Is(err, fs.ErrNotExist) != (name == "removed") {
					t.Errorf("its state: %v", err)
				}
			})
		})
	}
}

// TestFollowExpires: a release that has expired is not applied, and a node that has it says that there is none newer.
func TestFollowExpires(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		publish := func(serial int64) {
			if _, r, err := signed(t, Signing{Key: s.key, Serial: serial, Lasts: time.Hour},
				filepath.Join(s.dir, "prod.tar")); err != nil || r.Expires.Sub(r.Made) != time.Hour {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		publish(2)
		n := s.node("n")
		time.Sleep(59 * time.Minute)
		if code := n.round(t.Context()); code != 0 {
			t.Errorf("code %d: %q", code, n.said)
		}
		n.want("True", "Applied", "release 2", 2, "first")
		time.Sleep(time.Minute)
		if code := n.round(t.Context()); code != 1 {
			t.Errorf("code %d: %q", code, n.said)
		}
		n.want("False", "Refused", "release 2 expired at ", 2, "first")
		publish(3)
		time.Sleep(time.Hour)
		if code := n.round(t.Context()); code != 1 {
			t.Errorf("code %d: %q", code, n.said)
		}
		n.want("False", "Refused", "release 3 expired at ", 2, "first")
		s.publish(4, "next")
		if code := n.round(t.Context()); code != 0 {
			t.Errorf("code %d: %q", code, n.said)
		}
		n.want("True", "Applied", "release 4", 4, "first", "next")
	})
}

// TestFollowSourceSecret: credentials in the address of a source are in no message, and not on the Node.
func TestFollowSourceSecret(t *testing.T) {
	s := newSite(t)
	var answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if answer == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	at, _, err := signed(t, Signing{Key: s.key, Plan: "stage", Serial: 1}, bundleFile(t))
	must(t, err)
	stage, err := os.ReadFile(at)
	must(t, err)
	n := s.node("n")
	n.file.Source = strings.Replace(server.URL, "//", "//u:hush@", 1) + "/p.release?private_token=hush"
	for _, answer = range []string{"unsigned", strings.Repeat("x", maxRelease+1), string(stage), ""} {
		if code := n.round(t.Context()); code == 0 {
			t.Errorf("code %d: %q", code, n.said)
		}
	}
	have, err := s.cluster.Node(t.Context(), "n")
	must(t, err)
	b, err := json.Marshal(have)
	must(t, err)
	if text := strings.Join(n.said, "\n") + string(b); strings.Contains(text, "hush") {
		t.Errorf("it has the password: %s", text)
	}
}

// TestFollowTrustEnds: what may not be applied any more when a node's turn comes is not: a release that expires, or
// whose key loses its trust, while the node waits.
func TestFollowTrustEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *site)
		code   int
		want   [3]string
	}{
		"expires": {func(*site) {}, 1, [3]string{"False", "Refused", "release 1 expired at "}},
		"key": {func(s *site) { must(t, os.WriteFile(s.keys, []byte(line("ops", s.other)), 0o600)) }, 1,
			[3]string{"False", "Refused", "of a key that is not trusted here"}},
		"newer": {func(s *site) { s.publish(2, "second") }, 0, [3]string{"False", "Waiting", "as there is another release"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			synctest.Test(t, func(t *testing.T) {
				s.t = t
				s.publish(1, "first")
				_, _, err := signed(t, Signing{Key: s.key, Serial: 1, Lasts: 15 * time.Minute}, filepath.Join(s.dir, "prod.tar"))
				must(t, err)
				n := s.node("n")
				lease := kube.Lease{Name: slot, Note: "other", Holder: "another run", Duration: 20 * time.Minute,
					Renewed: time.Now()}
				_, err = s.cluster.TakeLease(t.Context(), lease, "")
				must(t, err)
				done := make(chan int)
				go func() { done <- n.round(t.Context()) }()
				time.Sleep(10 * time.Minute)
				c.change(s)
				if code := <-done; code != c.code {
					t.Errorf("code %d: %q", code, n.said)
				}
				n.want(c.want[0], c.want[1], c.want[2], 0)
				if list, err := s.cluster.Leases(t.Context(), "nodejoin-"); err != nil || len(list) > 0 {
					t.Errorf("%+v, %v", list, err)
				}
			})
		})
	}
}

// TestFollowHoldsUp: an apply that began and did not finish holds up the other nodes, as its Node may be cordoned.
func TestFollowHoldsUp(t *testing.T) {
	for name, c := range map[string]struct {
		outcome     firstboot.Outcome
		unreachable bool
		code        int
		reason      string
		cordons     bool   // the Node stays cordoned
		holds       string // why the others wait
	}{
		"unreachable": {firstboot.Waiting, true, 4, "Waiting", false, "the rollout stopped after 1 failure (a)"},
		"reboot": {firstboot.Rebooting, false, 6, "RebootPending", true,
			"the rollout may have 1 Node out of service, and a is out already"},
		"reboot in service": {firstboot.Rebooting, false, 6, "RebootPending", false, ""},
		"locked":            {firstboot.Waiting, false, 7, "Waiting", false, ""}, // nothing was changed
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			synctest.Test(t, func(t *testing.T) {
				s.t = t
				s.publish(1, "first")
				a, b := s.node("a"), s.node("b")
				s.outcome["a"], s.cordoned = c.outcome, c.cordons
				s.unreachable.Store(c.unreachable)
				if code := a.round(t.Context()); code != c.code {
					t.Errorf("code %d: %q", code, a.said)
				}
				a.want("False", c.reason, "", 0, "first")
				if code := b.round(t.Context()); code != 0 {
					t.Errorf("code %d: %q", code, b.said)
				}
				if c.holds != "" {
					b.want("False", "Waiting", "release 1 waits: "+c.holds, 0)
					s.outcome["a"], s.cordoned = firstboot.Finished, false
					if code := a.round(t.Context()) + b.round(t.Context()); code != 0 {
						t.Errorf("code %d", code)
					}
				}
				b.want("True", "Applied", "release 1", 1, "first")
			})
		})
	}
}

// TestFollowOwnTrouble: trouble of this machine is not put down to the source.
func TestFollowOwnTrouble(t *testing.T) {
	s := newSite(t)
	s.publish(1, "first")
	n := s.node("n")
	for what, at := range map[string]string{"folder": n.Path + ".work", "bundle": n.Path + ".work/bundle.tar.part/x"} {
		t.Run(what, func(t *testing.T) {
			if what == "folder" {
				must(t, os.WriteFile(at, nil, 0o600))
			} else {
				must(t, os.MkdirAll(at, 0o700))
			}
			if code := n.round(t.Context()); code != 1 {
				t.Errorf("code %d: %q", code, n.said)
			}
			n.want("False", "Failed", filepath.Base(n.Path)+".work", 0)
			must(t, os.RemoveAll(n.Path+".work"))
		})
	}
	n.file.Signers += "~"
	if code := n.round(t.Context()); code != 1 {
		t.Errorf("code %d: %q", code, n.said)
	}
	n.want("False", "Failed", "allowed_signers~", 0)
}

// TestFollowNodeAgain: a Node that was deleted and registered again gets the result back.
func TestFollowNodeAgain(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		n := s.machine("n")
		for _, uid := range []string{"u1", "u2"} {
			must(t, s.cluster.PutNode(t.Context(), kube.Node{Name: "n", UID: uid, Ready: true}))
			if code := n.round(t.Context()); code != 0 {
				t.Errorf("code %d: %q", code, n.said)
			}
			n.want("True", "Applied", "release 1", 1, "first")
			must(t, s.cluster.DeleteNode(t.Context(), "n", uid))
		}
	})
}
