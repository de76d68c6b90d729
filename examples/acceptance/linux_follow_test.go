package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// releaseServer is a publisher that serves its releases with TLS, by an authority of its own.
type releaseServer struct {
	*publisher
	b      *linuxBed
	ca     *registryCA
	addr   string
	stop   func()
	cut    atomic.Bool // it breaks off in the middle of a bundle
	source string      // of the releases, as plans have it
}

const (
	followLog = "/var/log/nodejoin-node/follow.log"
	// dropped is a file of linuxExtras.
	dropped = "/etc/apt/sources.list.d/site.list"
)

// failing is a part of a plan that fails after it has made a file.
const failing = `
step "file" "site_repository" {
  on      = node.` + linuxNode + `
  path    = "` + dropped + `"
  content = "deb https://packages.example.com next main\n"
}
step "file" "site_bad" {
  on      = node.` + linuxNode + `
  path    = "` + dropped + `/x"
  content = "x"
  after   = ["site_repository", "kubelet"]
}
`

// TestLinuxFollows: nodejoin-node of a machine with systemd applies a signed release once, also one that restarts
// nodejoin-node itself, from distribution's registry. Releases that are unsigned, older, by another key, or whose
// bundle is cut change nothing, and nor does a registry that is killed while it sends a bundle; all are on the Node.
// When the registry is back, the release is applied; it moves the node to a web server. What is killed in the middle
// goes on in the next round, which removes what the release drops. One that fails is rolled back, and not tried again.
// A leave leaves nothing of it.
func TestLinuxFollows(t *testing.T) {
	ctx, cancel := bounded(t, 12*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, true)
	p := b.newPublisher(t)
	r := p.newRepository(ctx)
	p.source = r.source()
	mustApply(ctx, t, p.plan("one", "10s", linuxExtras))
	p.want(ctx, corev1.ConditionUnknown, "NotFetched", "404")

	process := p.service(ctx)
	p.publish(ctx, p.plan("two", "11s", linuxExtras), 2)
	r.push(ctx)
	p.want(ctx, corev1.ConditionTrue, "Applied", "release 2, signed by ops@example")
	good := p.state()
	if now := p.service(ctx); now == process || good.Serial != 2 || good.Applied.IsZero() {
		t.Errorf("the service was process %s, now %s; the machine has %+v", process, now, good)
	}
	for _, bad := range slices.Backward(p.bad(ctx)) { // a round does not fetch the bundle of the last one
		p.put(bad.make())
		r.push(ctx)
		p.want(ctx, bad.status, bad.reason, bad.message)
	}
	p.source = p.web()
	args := p.plan("three", "10s", "")
	p.publish(ctx, args, 4)
	r.diesSending(ctx)
	p.want(ctx, corev1.ConditionUnknown, "NotFetched", "refused")
	if now, label := p.state(), p.label(ctx); now != good || label != "two" {
		t.Errorf("after releases that do not count the machine has %+v and the label %q, want %+v", now, label, good)
	}
	if n := p.logged("fetching release 2"); n != 1 {
		t.Errorf("release 2 was fetched %d times", n)
	}

	tries := p.logged("fetching release 4")
	r.start(ctx)
	until(ctx, t, "the begin of release 4", func() error {
		if s := p.state(); s.Serial != 4 {
			return fmt.Errorf("the machine has %+v", s)
		}
		return nil
	})
	if _, err := b.machine.Run(ctx, "pkill", "-KILL", "-x", "nodejoin"); err != nil { // in the machine
		t.Fatal(err)
	}
	if s := p.state(); !s.Applied.IsZero() {
		t.Fatalf("release 4 was done before the kill: %+v", s)
	}
	p.want(ctx, corev1.ConditionTrue, "Applied", "release 4, signed by ops@example")
	if label := p.label(ctx); label != "three" {
		t.Errorf("the Node has the label %q", label)
	}
	if n := p.logged("fetching release 4"); n != tries+2 { // before the kill, and after it
		t.Errorf("release 4 was fetched %d times after the registry was back", n-tries)
	}
	wantNothing(ctx, t, args)
	for _, path := range []string{dropped, "/etc/systemd/system/site.service"} {
		if _, err := os.Lstat(b.machine.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("release 4 dropped %s: %v", path, err)
		}
	}
	p.publish(ctx, p.plan("four", "10s", failing), 5)
	p.want(ctx, corev1.ConditionFalse, "RolledBack", "release 5 failed at site_bad and was rolled back (")
	tries = p.logged("fetching release 5")
	rounds := p.logged("RolledBack: ")
	until(ctx, t, "two more rounds", func() error {
		if n := p.logged("RolledBack: "); n < rounds+2 {
			return fmt.Errorf("%d of %d", n-rounds, 2)
		}
		return nil
	})
	if now := p.logged("fetching release 5"); tries != 1 || now != 1 {
		t.Errorf("release 5 was tried %d times, and then %d", tries, now)
	}
	if _, err := os.Lstat(b.machine.Path(dropped)); !errors.Is(err, fs.ErrNotExist) || p.label(ctx) != "three" {
		t.Errorf("after the rollback there is %s (%v), and the label %q", dropped, err, p.label(ctx))
	}
	wantNothing(ctx, t, args)
	if out, code := released(t).output(ctx, t, append([]string{"leave", "--auto-approve", "--target", linuxNode},
		args...)...); code != 0 {
		t.Fatalf("leave: exit code %d\n%s", code, out)
	}
	for _, path := range []string{"/var/lib/nodejoin", "/usr/local/bin/nodejoin", "/etc/kubernetes",
		filepath.Dir(followLog)} {
		if _, err := os.Lstat(b.machine.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the leave there is %s: %v", path, err)
		}
	}
}

func (b *linuxBed) newPublisher(t *testing.T) *releaseServer {
	t.Helper()
	p := &releaseServer{publisher: &publisher{t: t, cluster: b.cluster, node: linuxNode, keys: b.dir, dir: t.TempDir(),
		log: b.machine.Path(followLog), kept: b.machine.Path("/var/lib/nodejoin/follow.json.state")},
		b: b, ca: newRegistryCAFor(t, b.machine.Gateway()+":0")}
	p.ca.sign("server", false)
	p.serve(p.ca.listen)
	t.Cleanup(func() {
		p.stop()
		p.report()
	})
	return p
}

// web is the source of releases on the server.
func (p *releaseServer) web() string { return "https://" + p.addr + "/site.tar.release" }

// serve offers the folder at an address, until stop.
func (p *releaseServer) serve(at string) {
	p.t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		p.t.Fatal(err)
	}
	p.addr = l.Addr().String()
	s := &http.Server{Handler: http.HandlerFunc(p.answer), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeTLS(l, p.ca.file("server.pem"), p.ca.file("server.key")) // until Close
	}()
	p.stop = func() {
		_ = s.Close()
		<-done
	}
}

func (p *releaseServer) answer(w http.ResponseWriter, r *http.Request) {
	if !p.cut.Load() || !strings.HasSuffix(r.URL.Path, ".tar") {
		http.FileServer(http.Dir(p.dir)).ServeHTTP(w, r)
		return
	}
	f, err := os.Open(filepath.Join(p.dir, filepath.Base(r.URL.Path)))
	if err != nil {
		p.t.Error(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		p.t.Error(err)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	_, _ = io.CopyN(w, f, min(info.Size()/2, 1<<20)) // the client may have gone
	panic(http.ErrAbortHandler)
}

// plan writes the plan of a release, whose name is a label of the Node. Another interval restarts nodejoin-node.
// extras are steps of it.
func (p *releaseServer) plan(release, interval, extras string) (args []string) {
	p.t.Helper()
	key, err := os.ReadFile(filepath.Join(p.b.dir, "user.pub"))
	if err != nil {
		p.t.Fatal(err)
	}
	pem, err := os.ReadFile(p.ca.file("ca.pem"))
	if err != nil {
		p.t.Fatal(err)
	}
	host := p.b.linuxHost()
	for old, new := range map[string]string{
		`"example.com/pool" = "linux"`: fmt.Sprintf(`"example.com/pool" = "linux", %q = %q`, releaseLabel, release),
		`guard { interval = "10s" }`: fmt.Sprintf(`host { trusted_cas = [%q] }
  guard { interval = %q }
  on_failure = "rollback"
  follow {
    plan     = "site"
    source   = %q
    signers  = %q
    jitter   = "1s"
    interval = "10s"
  }`, pem, interval, p.source, "ops@example "+string(key)),
	} {
		if !strings.Contains(host, old) {
			p.t.Fatalf("the plan has no %s", old)
		}
		host = strings.Replace(host, old, new, 1)
	}
	return writePlan(p.t, withRuntimeConfig(p.t, p.b.head(), "5"), host, extras)
}

// service is the process of nodejoin-node.
func (p *releaseServer) service(ctx context.Context) string {
	p.t.Helper()
	out, err := p.b.machine.Run(ctx, "systemctl", "show", "--property=MainPID", "--value", "nodejoin-node")
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}
