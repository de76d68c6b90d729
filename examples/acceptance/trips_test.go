package acceptance_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"nodejoin/examples/acceptance/internal/mirror"
	"nodejoin/examples/acceptance/internal/netproxy"
)

const (
	// tripTime is the round trip time of the proxy: what is sent within half of it after something was received
	// cannot have waited for an answer.
	tripTime = 40 * time.Millisecond
	// noopTrips bounds the round trips after the SSH handshake of a run that has nothing to change: the start
	// of the agent, its greeting, one check of all steps.
	noopTrips = 3
	// changeTrips: a run that changes something takes the host's lock first; in the end it removes what the plan no
	// longer names, which only the finished steps show, and leaves its note in the host's history.
	changeTrips = 3
	// keepAlive is the interval of keep-alive messages (steps/transport).
	keepAlive = 10 * time.Second
)

// TestRoundTrips: how many round trips to its host a whole run of the real recipe needs. A run with nothing to
// do is the handshake and three; a join adds the lock, the removal, the note in the history, and one for each
// batch of host steps, which is what lies between two steps on the cluster's side, and none for a step. The
// host fetches the artifacts itself.
func TestRoundTrips(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	b.network.OnSwitch(func(string) error { return nil }) // a connection that breaks costs more
	v := b.variables(b.host.Port())
	files := httptest.NewServer(http.FileServer(http.Dir(v.Mirror)))
	defer files.Close()
	plan := planWithURLs(t, files.URL)
	direct := v.with(t, plan)
	// The agent comes to the machine before anything is counted, both the one that
	// runs the steps and the one that will supervise flanneld.
	mustApply(ctx, t, append(direct, "--target", "node."+nodeName+".agent"))
	steps := plannedSteps(ctx, t, direct)
	batches := 0
	for i, s := range steps {
		if !s.cluster && (i == 0 || steps[i-1].cluster) {
			batches++
		}
	}
	handshake := b.handshakeTrips()

	// Both runs take the same way: the plan opens the port of its connection in the host's firewall.
	proxy, err := netproxy.Start(b.host.Addr, tripTime)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	counted := func() (trips int64, r *result) {
		t.Helper()
		before, connections := proxy.Trips(), proxy.Accepted()
		r = mustApply(ctx, t, append(b.variables(proxy.Port()).write(t)[:2], plan))
		if n := proxy.Accepted() - connections; n != 1 {
			t.Errorf("%d connections, want one", n)
		}
		return proxy.Trips() - before - handshake, r
	}
	cold, r := counted()
	alive := int64(r.took / keepAlive)
	most := int64(noopTrips+changeTrips+batches) + alive
	t.Logf("handshake %d; join of %d steps in %d batches: %d round trips more, %d of them may be signs of life",
		handshake, len(steps), batches, cold, alive)
	if cold > most {
		t.Errorf("the join took %d round trips after the handshake, want at most %d", cold, most)
	}
	if int64(len(steps)) < 2*most {
		t.Errorf("%d steps are too few to show that no step takes a round trip of its own (bound %d)", len(steps), most)
	}
	b.wantJoined(ctx)
	noop, r := counted()
	t.Logf("nothing to change: %d round trips after the handshake", noop)
	if noop > noopTrips+int64(r.took/keepAlive) || r.summary.Pending != 0 {
		t.Errorf("a run with %d steps to do took %d round trips after the handshake, want none to do and at most %d",
			r.summary.Pending, noop, noopTrips)
	}
}

// handshakeTrips returns the round trips of an SSH connection with a login by key.
func (b *bed) handshakeTrips() int64 {
	b.t.Helper()
	proxy, err := netproxy.Start(b.host.Addr, tripTime)
	if err != nil {
		b.t.Fatal(err)
	}
	defer proxy.Close()
	pem, err := os.ReadFile(b.host.Identity)
	if err != nil {
		b.t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		b.t.Fatal(err)
	}
	_, _, host, _, _, err := ssh.ParseKnownHosts([]byte(b.host.KnownHosts(proxy.Port())))
	if err != nil {
		b.t.Fatal(err)
	}
	c, err := ssh.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(proxy.Port())),
		&ssh.ClientConfig{User: b.host.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
			HostKeyCallback: ssh.FixedHostKey(host), Timeout: 30 * time.Second})
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	return proxy.Trips()
}

// plannedStep is a step as `nodejoin plan --json` gives it.
type plannedStep struct {
	Kind    string `json:"kind"`
	cluster bool
}

// clusterKinds are the kinds that work on the cluster, from the controller.
var clusterKinds = regexp.MustCompile(
	`^(node_.*|service_account.*|bootstrap_token|flannel_agrees|serving_certificate)$`)

func plannedSteps(ctx context.Context, t *testing.T, args []string) []plannedStep {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, said, code := released(t).outputs(ctx, t, append([]string{"plan", "--json"}, args...)...)
	if code != 0 {
		t.Fatalf("plan: exit code %d\n%s%s", code, out, said)
	}
	var have struct {
		Hosts []struct {
			Steps []plannedStep `json:"steps"`
		} `json:"hosts"`
	}
	if err := json.Unmarshal([]byte(out), &have); err != nil || len(have.Hosts) != 1 || len(have.Hosts[0].Steps) == 0 {
		t.Fatalf("plan --json: %v\n%s", err, out)
	}
	steps := have.Hosts[0].Steps
	for i := range steps {
		steps[i].cluster = clusterKinds.MatchString(steps[i].Kind)
	}
	return steps
}

var artifactBlock = regexp.MustCompile(`(?s)artifact "([a-z_]+)" \{.*?\}\n`)

// planWithURLs is the example plan in a folder of its own, with the artifacts at the
// address of a server of the mirror's files.
func planWithURLs(t *testing.T, server string) string {
	t.Helper()
	text := exampleText(t)
	_, artifacts, err := mirror.Make(t.Context(), componentSet(t), "windows")
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "mirror { path = var.mirror }", "", 1))
	n := 0
	text = artifactBlock.ReplaceAllFunc(text, func(block []byte) []byte {
		n++
		name := string(artifactBlock.FindSubmatch(block)[1])
		return []byte("artifact \"" + name + "\" {\n  url    = \"" + server + "/" + artifacts[name].File +
			"\"\n  sha256 = var.sha256[\"" + name + "\"]\n}\n")
	})
	if n != len(artifacts) {
		t.Fatalf("%s has %d artifact blocks, want %d", examplePlan, n, len(artifacts))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.join.hcl"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
