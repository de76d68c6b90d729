package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/host/hosttest"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

func TestMain(m *testing.M) {
	hosttest.InMemory()
	os.Exit(m.Run())
}

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
		Source: filepath.Join(s.dir, "prod.tar.release"), Values: map[string]string{"b": "2", "a": "1"}, Environment: "e"}}
	n.Run = &Run{Path: filepath.Join(s.t.TempDir(), "follow.json")}
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

// TestFollow: 50 nodes apply a good release once each, as many at a time as the rollout allows. The next rounds do
// nothing.
func TestFollow(t *testing.T) {
	for _, limit := range []int{1, 4} {
		t.Run(fmt.Sprint(limit, " at a time"), func(t *testing.T) { followers(t, limit) })
	}
}

func followers(t *testing.T, limit int) {
	s := newSite(t)
	s.rollout.MaxUnavailable, s.drains = limit, true
	s.publish(1, "first")
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		var nodes []*node
		for i := range 50 {
			n := s.node(fmt.Sprintf("n-%02d", i))
			n.file.Jitter = "10m"
			nodes = append(nodes, n)
		}
		all := func() {
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
		for range 5 { // a node that has waited for an hour goes on in the next round
			all()
		}
		for _, n := range nodes {
			n.want("True", "Applied", "release 1, signed by ops", 1, "first")
		}
		if most, out := int(s.most.Load()), int(s.out.Load()); most != limit || out != limit {
			t.Errorf("%d nodes applied at the same time, and %d were out of service", most, out)
		}
		leases, err := s.cluster.Leases(t.Context(), "nodejoin-")
		if err != nil || len(leases) != 0 {
			t.Errorf("%+v, %v", leases, err)
		}
		s.publish(2, "second")
		nodes = nodes[:2]
		all()
		for _, n := range nodes {
			n.want("True", "Applied", "release 2", 2, "first", "second")
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
				b, err := r.signed(s.other)
				if err != nil {
					t.Fatal(err)
				}
				write(release, b)
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
