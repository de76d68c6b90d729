package pull

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/plan"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

// site has a plan's releases in a folder, and the nodes of a simulated cluster that follow them.
type site struct {
	t       *testing.T
	dir     string
	cluster *sandbox.Cluster
	keys    string // file of trusted keys
	key     string // file of the private key
	other   ssh.Signer

	rollout plan.Rollout // of the plan
	drains  bool         // an apply takes the Node out of service
	// cordoned: an apply leaves the Node so.
	cordoned bool

	applying, most atomic.Int32
	out            atomic.Int32 // the most Nodes that were out of service at once
	mu             sync.Mutex
	applied        map[string][]string // node -> bundles, by their content
	outcome        map[string]firstboot.Outcome
	unreachable    atomic.Bool // an apply that waits could not reach something; else it found a lock
}

func newSite(t *testing.T) *site {
	t.Helper()
	c, err := sandbox.OpenCluster(t.Context(), sandbox.ClusterConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	key, signer := keyFile(t)
	_, other := keyFile(t)
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"} {
		t.Setenv(name, os.Getenv(name)) // restored
	}
	return &site{t: t, dir: t.TempDir(), cluster: c, key: key, keys: signersFile(t, line("ops", signer)), other: other,
		applied: map[string][]string{}, outcome: map[string]firstboot.Outcome{}}
}

// publish signs a bundle with a content.
func (s *site) publish(serial int64, content string) {
	s.t.Helper()
	bundle := filepath.Join(s.dir, "prod.tar")
	if err := os.WriteFile(bundle, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if _, _, err := signed(s.t, Signing{Key: s.key, Serial: serial}, bundle); err != nil {
		s.t.Fatal(err)
	}
}

// node is a machine that has joined, and follows the plan.
type node struct {
	*Run
	s    *site
	name string
	file File
	said []string
	// applies is its apply; nil = apply.
	applies firstboot.Apply
	// opens opens its cluster; nil = that of the site.
	opens func(context.Context, *File) (kube.API, error)
	dies  bool // a round is expected to be cut off
}

func (s *site) node(name string) *node {
	s.t.Helper()
	if err := s.cluster.PutNode(s.t.Context(), kube.Node{Name: name, Ready: true,
		Annotations: map[string]string{kube.PlanOf: "e@demo"}}); err != nil {
		s.t.Fatal(err)
	}
	return s.machine(name)
}

// machine is one that has not joined.
func (s *site) machine(name string) *node {
	n := &node{s: s, name: name, file: File{Version: 1, Node: name, Plan: "prod", Signers: s.keys, Sandbox: s.dir,
		Source: filepath.Join(s.dir, "prod.tar.release"), Values: map[string]string{"b": "2", "a": "1"},
		Environment: "e"}}
	n.Run = &Run{Path: filepath.Join(s.t.TempDir(), "follow.json")}
	must(s.t, os.WriteFile(n.Path, nil, 0o600))
	closeFile(s.t, n.Path) // what is written to it later changes neither its mode nor its access list
	return n
}

// round makes a round.
func (n *node) round(ctx context.Context) int {
	n.s.t.Helper()
	b, err := json.Marshal(n.file)
	if err == nil {
		err = os.WriteFile(n.Path, b, 0o600)
	}
	if err != nil {
		n.s.t.Fatal(err)
	}
	n.Run = &Run{Path: n.Path, Say: func(text string) { n.said = append(n.said, text) }, Apply: n.apply,
		Open: func(context.Context, *File) (kube.API, error) { return n.s.cluster, nil }}
	if n.applies != nil {
		n.Apply = n.applies
	}
	if n.opens != nil {
		n.Open = n.opens
	}
	code, err := n.Do(ctx)
	if (err != nil) != n.dies {
		n.s.t.Errorf("%s: %v", n.name, err)
	}
	return code
}

// plan is what the release has for the node.
func (n *node) plan() *plan.Compiled {
	return &plan.Compiled{Environment: "e", Cluster: &plan.Cluster{Name: "demo"}, Nodes: []plan.Node{{Name: n.name}},
		Rollout: n.s.rollout}
}

// apply is an apply of some time.
func (n *node) apply(ctx context.Context, args []string) (int, firstboot.Outcome) {
	if err := n.Prepare(ctx, n.plan()); errors.Is(err, firstboot.ErrNotNow) {
		return 7, firstboot.Waiting
	} else if err != nil {
		n.s.t.Error(err)
	}
	n.s.most.Store(max(n.s.most.Load(), n.s.applying.Add(1)))
	defer n.s.applying.Add(-1)
	if n.s.drains || n.s.cordoned {
		must(n.s.t, n.s.cluster.Cordon(ctx, n.name, "upgrade"))
		n.s.count(ctx)
	}
	if !n.s.cordoned {
		defer func() { must(n.s.t, n.s.cluster.Uncordon(context.WithoutCancel(ctx), n.name)) }()
	}
	want := []string{"apply", "--auto-approve", "--display", "plain", "--env", "e", "--var", "a=1", "--var", "b=2"}
	if !slices.Equal(args[:len(args)-1], want) {
		n.s.t.Errorf("apply has %q", args)
	}
	b, err := os.ReadFile(args[len(args)-1])
	if err != nil {
		n.s.t.Error(err)
	}
	select {
	case <-time.After(3 * time.Minute): // longer than a Lease that is not renewed
	case <-ctx.Done():
	}
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.s.applied[n.name] = append(n.s.applied[n.name], string(b))
	o, ok := n.s.outcome[n.name]
	if !ok {
		o = firstboot.Finished
	}
	if o == firstboot.Waiting && n.s.unreachable.Load() {
		return 4, o
	}
	return map[firstboot.Outcome]int{firstboot.Finished: 0, firstboot.Failed: 1, firstboot.Waiting: 7,
		firstboot.Rebooting: 6}[o], o
}

// count counts the Nodes that are out of service.
func (s *site) count(ctx context.Context) {
	s.t.Helper()
	list, err := s.cluster.Nodes(ctx)
	must(s.t, err)
	out := int32(0)
	for _, n := range list {
		if !n.Ready || n.Unschedulable {
			out++
		}
	}
	for most := s.out.Load(); out > most && !s.out.CompareAndSwap(most, out); most = s.out.Load() {
	}
}

// want checks what the Node says of the last round, and which bundles were applied.
func (n *node) want(status, reason, message string, release int64, applied ...string) {
	n.s.t.Helper()
	have, err := n.s.cluster.Node(context.WithoutCancel(n.s.t.Context()), n.name)
	if err != nil {
		n.s.t.Fatal(err)
	}
	i := slices.IndexFunc(have.Conditions, func(c kube.Condition) bool { return c.Type == "NodejoinFollowsPlan" })
	if i < 0 {
		n.s.t.Fatalf("%s has no condition: %q", n.name, n.said)
	}
	c := have.Conditions[i]
	if c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) || c.Since.IsZero() {
		n.s.t.Errorf("%s: the condition is %+v, want %s %s %q", n.name, c, status, reason, message)
	}
	var f followed
	if err := json.Unmarshal([]byte(have.Annotations["nodejoin.dev/follows"]), &f); err != nil {
		n.s.t.Fatal(err)
	}
	if f.Plan != "prod" || f.Release != release || string(f.Result.Reason) != reason || f.Result.Message != c.Message ||
		f.Applied.IsZero() != (release == 0) {
		n.s.t.Errorf("%s: the annotation is %+v, want release %d", n.name, f, release)
	}
	if have := n.s.applied[n.name]; !slices.Equal(have, applied) {
		n.s.t.Errorf("%s: applied %q, want %q", n.name, have, applied)
	}
	if _, err := os.Stat(n.work()); reason == "Applied" && !os.IsNotExist(err) {
		n.s.t.Errorf("%s: the folder of the run is left: %v", n.name, err)
	}
}
