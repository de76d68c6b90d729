package acceptance_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Places of a Windows node that follows a plan.
const (
	followedDir  = `C:\plans`
	nodejoinData = `C:\ProgramData\nodejoin`
	nodejoinExe  = nodejoinData + `\bin\nodejoin.exe`
)

// TestWindowsFollows: nodejoin-node of a Windows machine applies a signed release once, from a controller on Linux.
// Releases that are older, by another key, unsigned, or whose bundle is cut change nothing; all are on the Node. A
// release replaces the nodejoin.exe that applies it. A leave ends a round that waits, and leaves nothing of it.
func TestWindowsFollows(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	p := b.newPublisher(ctx)
	program, err := os.ReadFile(nodejoin(t, "windows"))
	if err != nil {
		t.Fatal(err)
	}
	args := b.followedPlan("one", "0s", program)
	mustApply(ctx, t, args)
	p.want(ctx, corev1.ConditionUnknown, "NotFetched", "site.tar.release")
	wantNothing(ctx, t, args)
	b.wantPrivate(nodejoinData, nodejoinData+`\follow.json`, nodejoinData+`\follow.signers`,
		`C:\etc\kubernetes\nodejoin-follow.conf`, `C:\etc\kubernetes\nodejoin-follow.token`)

	args = b.followedPlan("two", "0s", program)
	p.publish(ctx, args, 2)
	p.want(ctx, corev1.ConditionTrue, "Applied", "release 2, signed by ops@example")
	good := p.state()
	if label := p.label(ctx); label != "two" || good.Serial != 2 || good.Applied.IsZero() {
		t.Errorf("the machine has %+v, and the Node the label %q", good, label)
	}
	for _, bad := range p.bad(ctx) {
		p.put(bad.make())
		p.want(ctx, bad.status, bad.reason, bad.message)
	}
	if now, label := p.state(), p.label(ctx); now != good || label != "two" {
		t.Errorf("after releases that do not count the machine has %+v and the label %q, want %+v", now, label, good)
	}
	if n := p.logged("fetching release 2"); n != 1 {
		t.Errorf("release 2 was fetched %d times", n)
	}
	wantNothing(ctx, t, args)

	next := append(bytes.Clone(program), "another build"...) // Windows does not load what is behind the sections
	args = b.followedPlan("three", "0s", next)
	p.publish(ctx, args, 4)
	p.want(ctx, corev1.ConditionTrue, "Applied", "release 4, signed by ops@example")
	if !bytes.Equal(b.read(nodejoinExe), next) {
		t.Error("release 4 has not replaced nodejoin.exe")
	}
	until(ctx, t, "the end of the old nodejoin.exe", func() error {
		if _, err := os.Stat(b.host.Path(nodejoinExe + ".old")); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	p.want(ctx, corev1.ConditionTrue, "Applied", "release 4")
	wantNothing(ctx, t, args)

	args = b.followedPlan("four", "6h", next)
	mustApply(ctx, t, args)
	b.waits(ctx, p, args, 5)
	if out, code := released(t).output(ctx, t, append([]string{"leave", "--auto-approve", "--target", nodeName},
		args...)...); code != 0 {
		t.Fatalf("leave: exit code %d\n%s", code, out)
	}
	for _, path := range []string{nodejoinData, `C:\etc\kubernetes`, `C:\var\log\nodejoin-node`} {
		if _, err := os.Stat(b.host.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the leave there is %s: %v", path, err)
		}
	}
}

// newPublisher has keys of its own, and puts releases on the disk of the machine.
func (b *bed) newPublisher(ctx context.Context) *publisher {
	b.t.Helper()
	p := &publisher{t: b.t, cluster: b.cluster, node: nodeName, keys: b.dir, dir: b.host.Path(followedDir),
		log:  b.host.Path(`C:\var\log\nodejoin-node\follow.log`),
		kept: b.host.Path(nodejoinData + `\follow.json.state`)}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	for _, key := range []string{"user", "host"} {
		out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(p.keys, key)).CombinedOutput()
		if err != nil {
			b.t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	b.t.Cleanup(p.report)
	return p
}

// waits publishes releases of a plan until a round waits with one: its random pause may be short.
func (b *bed) waits(ctx context.Context, p *publisher, args []string, serial int) {
	b.t.Helper()
	for waits := false; !waits; serial++ {
		p.publish(ctx, args, serial)
		until(ctx, b.t, "a round of the release", func() error {
			waits = p.logged(fmt.Sprintf("Waiting: release %d waits for a random pause of", serial)) > 0
			if !waits && p.logged(fmt.Sprintf("Applied: release %d,", serial)) == 0 {
				return errors.New("neither waits nor has it")
			}
			return nil
		})
	}
}

// followedPlan is the plan of a release, whose name is a label of the Node, with a random pause and this nodejoin.exe.
func (b *bed) followedPlan(release, jitter string, program []byte) (args []string) {
	b.t.Helper()
	key, err := os.ReadFile(filepath.Join(b.dir, "user.pub"))
	if err != nil {
		b.t.Fatal(err)
	}
	args = b.bootPlan(map[string]string{nodeName: "127.0.0.1"}, `os     = "windows"`, fmt.Sprintf(`os     = "windows"
  guard { interval = "10s" }
  follow {
    plan     = "site"
    source   = %q
    signers  = %q
    interval = "10s"
    jitter   = %q
    file     = "nodejoin.exe"
    sha256   = "%x"
  }`, followedDir+`\site.tar.release`, "ops@example "+string(key), jitter,
		sha256.Sum256(program)),
		`"example.com/pool" = "windows"`,
		fmt.Sprintf(`"example.com/pool" = "windows", %q = %q`, releaseLabel, release))
	if err := os.WriteFile(filepath.Join(args[0], "nodejoin.exe"), program, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return args
}
