package acceptance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// publisher signs releases of the plan, and serves them with TLS by an authority of its own.
type publisher struct {
	b    *linuxBed
	t    *testing.T
	ca   *registryCA
	dir  string // what is served
	addr string
	stop func()
}

// followState is what the machine keeps of the plan that it follows.
type followState struct {
	Serial  int64
	Applied time.Time
}

const (
	releaseLabel = "example.com/release"
	followLog    = "/var/log/nodejoin-node/follow.log"
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
// nodejoin-node itself. Releases that are unsigned, older, by another key, or whose bundle is cut change nothing, and
// nor does a server that is down; all are on the Node. What is killed in the middle goes on in the next round, which
// removes what the release drops. One that fails is rolled back, and not tried again. A leave leaves nothing of it.
func TestLinuxFollows(t *testing.T) {
	ctx, cancel := bounded(t, 12*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, true)
	p := b.newPublisher(t)
	mustApply(ctx, t, p.plan("one", "10s", linuxExtras))
	p.want(ctx, corev1.ConditionUnknown, "NotFetched", "404")

	process := p.service(ctx)
	p.publish(ctx, p.plan("two", "11s", linuxExtras), 2)
	p.want(ctx, corev1.ConditionTrue, "Applied", "release 2, signed by ops@example")
	good := p.state()
	if now := p.service(ctx); now == process || good.Serial != 2 || good.Applied.IsZero() {
		t.Errorf("the service was process %s, now %s; the machine has %+v", process, now, good)
	}
	for _, bad := range []struct {
		name    string
		make    func() []byte
		status  corev1.ConditionStatus
		reason  string
		message string
	}{
		{"older", func() []byte { return p.signed(ctx, "user", 1, nil) }, corev1.ConditionFalse, "Refused", "older"},
		{"another key", func() []byte { return p.signed(ctx, "host", 3, nil) }, corev1.ConditionFalse, "Refused",
			"not trusted"},
		{"unsigned", func() []byte { return p.text(3, nil) }, corev1.ConditionFalse, "Refused", "not signed"},
		{"cut bundle", func() []byte {
			return p.signed(ctx, "user", 3, func(r map[string]any) { r["size"] = r["size"].(float64) + 1 })
		}, corev1.ConditionUnknown, "NotFetched", "is cut"},
	} {
		p.put(bad.make())
		p.want(ctx, bad.status, bad.reason, bad.message)
	}
	p.stop()
	p.want(ctx, corev1.ConditionUnknown, "NotFetched", "refused")
	if now, label := p.state(), p.label(ctx); now != good || label != "two" {
		t.Errorf("after releases that do not count the machine has %+v and the label %q, want %+v", now, label, good)
	}
	if n := p.logged("fetching release 2"); n != 1 {
		t.Errorf("release 2 was fetched %d times", n)
	}

	p.serve(p.addr)
	args := p.plan("three", "10s", "")
	p.publish(ctx, args, 4)
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
	wantNothing(ctx, t, args)
	for _, path := range []string{dropped, "/etc/systemd/system/site.service"} {
		if _, err := os.Lstat(b.machine.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("release 4 dropped %s: %v", path, err)
		}
	}
	p.publish(ctx, p.plan("four", "10s", failing), 5)
	p.want(ctx, corev1.ConditionFalse, "RolledBack", "release 5 failed at site_bad and was rolled back (")
	tries := p.logged("fetching release 5")
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

func (b *linuxBed) newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{b: b, t: t, ca: newRegistryCAFor(t, b.machine.Gateway()+":0"), dir: t.TempDir()}
	p.ca.sign("server", false)
	p.serve(p.ca.listen)
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			log, _ := os.ReadFile(b.machine.Path(followLog))
			t.Logf("--- follow\n%s", tail(string(log)))
		}
	})
	return p
}

// serve offers the folder at an address, until stop.
func (p *publisher) serve(at string) {
	p.t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		p.t.Fatal(err)
	}
	p.addr = l.Addr().String()
	s := &http.Server{Handler: http.FileServer(http.Dir(p.dir)), ReadHeaderTimeout: time.Minute}
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

// plan writes the plan of a release, whose name is a label of the Node. Another interval restarts nodejoin-node.
// extras are steps of it.
func (p *publisher) plan(release, interval, extras string) (args []string) {
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
    source   = "https://%s/site.tar.release"
    signers  = %q
    jitter   = "1s"
    interval = "10s"
  }`, pem, interval, p.addr, "ops@example "+string(key)),
	} {
		if !strings.Contains(host, old) {
			p.t.Fatalf("the plan has no %s", old)
		}
		host = strings.Replace(host, old, new, 1)
	}
	return writePlan(p.t, withRuntimeConfig(p.t, p.b.head(), "5"), host, extras)
}

// publish makes a release of a plan, the bundle first.
func (p *publisher) publish(ctx context.Context, args []string, serial int) {
	p.t.Helper()
	made := filepath.Join(p.t.TempDir(), "site.tar")
	for _, call := range [][]string{append([]string{"lock"}, args...), append([]string{"bundle", "--no-images", "-o",
		made, "--sign", filepath.Join(p.b.dir, "user"), "--serial", fmt.Sprint(serial)}, args...)} {
		if out, code := released(p.t).output(ctx, p.t, call...); code != 0 {
			p.t.Fatalf("%s: exit code %d\n%s", call, code, out)
		}
	}
	for _, name := range []string{made, made + ".release"} {
		if err := os.Rename(name, filepath.Join(p.dir, filepath.Base(name))); err != nil {
			p.t.Fatal(err)
		}
	}
}

// put replaces the release.
func (p *publisher) put(text []byte) {
	p.t.Helper()
	at := filepath.Join(p.dir, "site.tar.release")
	if err := os.WriteFile(at+".new", text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		p.t.Fatal(err)
	}
}

// text is what is signed of the release that is there, with another serial number.
func (p *publisher) text(serial int, change func(map[string]any)) []byte {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "site.tar.release"))
	if err != nil {
		p.t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(text[bytes.IndexByte(text, '{'):], &r); err != nil {
		p.t.Fatal(err)
	}
	if r["serial"] = serial; change != nil {
		change(r)
	}
	out, err := json.Marshal(r)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// signed is a release that ssh-keygen signs with a key of the bed.
func (p *publisher) signed(ctx context.Context, key string, serial int, change func(map[string]any)) []byte {
	p.t.Helper()
	text := p.text(serial, change)
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-Y", "sign", "-n", "release@nodejoin.dev", "-f",
		filepath.Join(p.b.dir, key))
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("ssh-keygen: %v", err)
	}
	return append(out, text...)
}

// want waits for a result on the Node.
func (p *publisher) want(ctx context.Context, status corev1.ConditionStatus, reason, message string) {
	p.t.Helper()
	until(ctx, p.t, "the result "+reason+" on the Node", func() error {
		node, err := p.b.cluster.Client.CoreV1().Nodes().Get(ctx, linuxNode, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == "NodejoinFollowsPlan" && c.Status == status && c.Reason == reason &&
				strings.Contains(c.Message, message)
		}) {
			return fmt.Errorf("the Node has the conditions %+v", node.Status.Conditions)
		}
		if has := node.Annotations["nodejoin.dev/follows"]; !strings.Contains(has, `"reason":"`+reason+`"`) {
			return fmt.Errorf("the Node has the annotation %s", has)
		}
		return nil
	})
}

func (p *publisher) label(ctx context.Context) string {
	p.t.Helper()
	node, err := p.b.cluster.Client.CoreV1().Nodes().Get(ctx, linuxNode, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return node.Labels[releaseLabel]
}

func (p *publisher) state() (s followState) {
	p.t.Helper()
	text, err := os.ReadFile(p.b.machine.Path("/var/lib/nodejoin/follow.json.state"))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// service is the process of nodejoin-node.
func (p *publisher) service(ctx context.Context) string {
	p.t.Helper()
	out, err := p.b.machine.Run(ctx, "systemctl", "show", "--property=MainPID", "--value", "nodejoin-node")
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// logged counts the rounds that said something.
func (p *publisher) logged(text string) int {
	p.t.Helper()
	log, err := os.ReadFile(p.b.machine.Path(followLog))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Count(string(log), text)
}
