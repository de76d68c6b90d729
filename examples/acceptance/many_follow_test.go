package acceptance_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	followerCount = 50
	// followersOut is how many Nodes may be out of service at once.
	followersOut = 5
	followFile   = "/var/lib/nodejoin/follow.json"
	// followsAnnotation is what a round reports, on the Node.
	followsAnnotation = "nodejoin.dev/follows"
)

// TestFiftyFollow: 50 nodes apply a good release once each, by their own histories, and no more of them are out of
// service at once than the plan allows, by a watch of the Nodes. Releases that are older, by another key, unsigned or
// half downloaded change nothing, and nor does a server that is down; all are on the Nodes.
func TestFiftyFollow(t *testing.T) {
	ctx, cancel := bounded(t, 8*time.Minute)
	defer cancel()
	f := startFollowers(ctx, t)
	f.join(ctx, f.plan("one", 100))
	f.settle()
	f.begin()
	f.server.publish(ctx, f.plan("two", 101), 2)
	for _, what := range []string{"release 2", "nothing to do"} {
		f.round(ctx, what, 0)
		f.want(ctx, corev1.ConditionTrue, "Applied", "release 2, signed by ops@example")
		f.wantOnce(ctx, "two")
	}
	good := f.state(ctx)
	for _, bad := range f.server.bad(ctx)[:3] {
		f.server.put(bad.make())
		f.changesNothing(ctx, bad.name, good, 1, bad.status, bad.reason, bad.message)
	}
	f.server.put(f.server.signed(ctx, "user", 3, nil))
	f.server.cut.Store(true)
	f.changesNothing(ctx, "half downloaded", good, 4, corev1.ConditionUnknown, "NotFetched", "broke off after")
	f.server.stop()
	f.changesNothing(ctx, "server down", good, 4, corev1.ConditionUnknown, "NotFetched", "refused")
}

// plan writes the plan of a release, whose name is a label of the Nodes. Another maxPods restarts the kubelets, for
// which the Nodes are drained.
func (f *followers) plan(release string, pods int) (args []string) {
	f.t.Helper()
	key, err := os.ReadFile(filepath.Join(f.server.keys, "user.pub"))
	if err != nil {
		f.t.Fatal(err)
	}
	addresses := ""
	for i, name := range f.names {
		addresses += fmt.Sprintf("    %q = \"192.0.2.%d\"\n", name, 10+i)
	}
	return writePlan(f.t, f.head(f.cluster, followersOut), fmt.Sprintf(`node "box" {
  for_each = {
%s  }
  name     = each.key
  os       = "linux"
  max_pods = %d
  labels   = { %q = %q }
  connection "sandbox" {
    path = "%s/${each.key}"
    ip   = each.value
  }
  follow {
    plan    = "site"
    source  = "https://%s/site.tar.release"
    signers = %q
    windows = ["00:00-12:00", "12:00-00:00"]
    jitter  = "10s"
    evict   = true
  }
}
`, addresses, pods, releaseLabel, release, f.dir, f.server.addr, "ops@example "+string(key)))
}

// want checks what all Nodes say of the last round.
func (f *followers) want(ctx context.Context, status corev1.ConditionStatus, reason, message string) {
	f.t.Helper()
	for _, n := range f.nodes(ctx) {
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == "NodejoinFollowsPlan" && c.Status == status && c.Reason == reason &&
				strings.Contains(c.Message, message)
		}) || !strings.Contains(n.Annotations[followsAnnotation], `"reason":"`+reason+`"`) {
			f.t.Errorf("%s has the annotation %s and the conditions %+v, want %s: %s", n.Name,
				n.Annotations[followsAnnotation], n.Status.Conditions, reason, message)
		}
	}
}

// wantOnce: each machine has applied one release, and restarted its kubelet for it once; no more Nodes than the plan
// allows were out of service at once, and each of them once.
func (f *followers) wantOnce(ctx context.Context, release string) {
	f.t.Helper()
	const change = "done: [kubelet_config kubelet node_labels node_steps node_service joined]"
	until(ctx, f.t, "the new processes of all kubelets", func() error {
		f.counting.Lock()
		defer f.counting.Unlock()
		for _, name := range f.names {
			if f.starts[name] < 2 {
				return fmt.Errorf("%s has the first one", name)
			}
		}
		return nil
	})
	for _, n := range f.nodes(ctx) {
		var history []struct {
			Holder  struct{ Command string }
			Result  string
			Changed []string
		}
		f.readJSON(f.inside(n.Name, filepath.Dir(followFile)+"/history.json"), &history)
		var applied []string
		for _, run := range history {
			if run.Holder.Command == "follow" {
				applied = append(applied, fmt.Sprintf("%s: %v", run.Result, run.Changed))
			}
		}
		var kept followState
		f.readJSON(f.rounds(n.Name)+".state", &kept)
		f.counting.Lock()
		starts := f.starts[n.Name]
		f.counting.Unlock()
		if len(applied) != 1 || applied[0] != change || starts != 2 ||
			kept.Serial != 2 || kept.Applied.IsZero() || n.Labels[releaseLabel] != release || n.Spec.Unschedulable {
			f.t.Errorf("%s has applied %q, started its kubelet %d times, has the state %+v, the label %q, and is "+
				"unschedulable: %v", n.Name, applied, starts, kept, n.Labels[releaseLabel], n.Spec.Unschedulable)
		}
	}
	most, taken := f.atOnce()
	f.t.Logf("%d Nodes were out of service at once at most, %d times one was taken out", most, taken)
	if most > followersOut || taken != len(f.names) {
		f.t.Errorf("%d Nodes were out of service at once, of %d allowed; %d times one was taken out, of %d nodes", most,
			followersOut, taken, len(f.names))
	}
	leases, err := f.api.CoordinationV1().Leases("kube-system").List(ctx, metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, l := range leases.Items {
		if strings.HasPrefix(l.Name, "nodejoin-") {
			f.t.Errorf("the Lease %s of %s is left", l.Name, *l.Spec.HolderIdentity)
		}
	}
}

// state is all that a release changes, by node: the files of the machine, what it keeps of its plan, and its Node
// without what a round reports.
func (f *followers) state(ctx context.Context) map[string]string {
	f.t.Helper()
	out := map[string]string{}
	for _, n := range f.nodes(ctx) {
		sum, files := sha256.New(), 0
		if err := filepath.WalkDir(f.inside(n.Name, "/"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			text, readErr := os.ReadFile(path)
			if err := errors.Join(err, readErr); err != nil {
				return err
			}
			files++
			_, err = fmt.Fprintf(sum, "%s %v %v %x\n", path, info.Mode(), info.ModTime(), sha256.Sum256(text))
			return err
		}); err != nil {
			f.t.Fatal(err)
		}
		var kept followState
		f.readJSON(f.rounds(n.Name)+".state", &kept)
		delete(n.Annotations, followsAnnotation)
		node, err := json.Marshal([]any{n.Labels, n.Annotations, n.Spec})
		if err != nil || files < 10 {
			f.t.Fatalf("%s has %d files, %v", n.Name, files, err)
		}
		out[n.Name] = fmt.Sprintf("%d files with the sum %x, %+v, %s", files, sum.Sum(nil), kept, node)
	}
	return out
}

// changesNothing has all machines make a round that changes nothing, and is reported.
func (f *followers) changesNothing(ctx context.Context, why string, good map[string]string, code int,
	status corev1.ConditionStatus, reason, message string) {
	f.t.Helper()
	f.round(ctx, why, code)
	f.want(ctx, status, reason, message)
	for name, now := range f.state(ctx) {
		if now != good[name] {
			f.t.Errorf("%s: %s had %s, and now %s", why, name, good[name], now)
		}
	}
}
