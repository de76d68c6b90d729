package pull

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps/kube"
)

// TestFollowNoMore: a round that waits for its turn while its file goes, as in a leave, or changes, applies nothing.
func TestFollowNoMore(t *testing.T) {
	for name, change := range map[string]func(file string) error{
		"removed": os.Remove,
		"changed": func(file string) error { return os.WriteFile(file, []byte("{}"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			synctest.Test(t, func(t *testing.T) {
				s.t = t
				s.publish(1, "first")
				n := s.node("n")
				lease := kube.Lease{Name: "nodejoin-follow.prod", Holder: "other", Duration: time.Minute, Renewed: time.Now()}
				if _, err := s.cluster.TakeLease(t.Context(), lease, ""); err != nil {
					t.Fatal(err)
				}
				done := make(chan int)
				go func() { done <- n.round(t.Context()) }()
				time.Sleep(30 * time.Second)
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
