package acceptance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// releaseLabel is a label of a Node: the name of the release that it has.
const releaseLabel = "example.com/release"

// publisher signs releases of a plan that a node follows.
type publisher struct {
	t       *testing.T
	cluster *controlplane.Cluster
	node    string
	keys    string // folder with the keys user, which is trusted, and host
	dir     string // has the releases
	log     string // of the rounds
	kept    string // what the machine keeps of the plan that it follows
}

// followState is what the machine keeps of the plan that it follows.
type followState struct {
	Serial  int64
	Applied time.Time
}

// badRelease is one that changes nothing.
type badRelease struct {
	name    string
	make    func() []byte
	status  corev1.ConditionStatus
	reason  string
	message string
}

// bad are releases that change nothing on a node that has release 2.
func (p *publisher) bad(ctx context.Context) []badRelease {
	return []badRelease{
		{"older", func() []byte { return p.signed(ctx, "user", 1, nil) }, corev1.ConditionFalse, "Refused", "older"},
		{"another key", func() []byte { return p.signed(ctx, "host", 3, nil) }, corev1.ConditionFalse, "Refused",
			"not trusted"},
		{"unsigned", func() []byte { return p.text(3, nil) }, corev1.ConditionFalse, "Refused", "not signed"},
		{"cut bundle", func() []byte {
			return p.signed(ctx, "user", 3, func(r map[string]any) { r["size"] = r["size"].(float64) + 1 })
		}, corev1.ConditionUnknown, "NotFetched", "is cut"},
	}
}

// report logs what the rounds said, if the test has failed.
func (p *publisher) report() {
	if p.t.Failed() {
		log, _ := os.ReadFile(p.log)
		p.t.Logf("--- follow\n%s", tail(string(log)))
	}
}

// publish makes a release of a plan, the bundle first.
func (p *publisher) publish(ctx context.Context, args []string, serial int) {
	p.t.Helper()
	made := filepath.Join(p.t.TempDir(), "site.tar")
	for _, call := range [][]string{append([]string{"lock"}, args...), append([]string{"bundle", "--no-images", "-o",
		made, "--sign", filepath.Join(p.keys, "user"), "--serial", fmt.Sprint(serial)}, args...)} {
		released(p.t).must(ctx, p.t, call...)
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
		filepath.Join(p.keys, key))
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
		node, err := p.cluster.Client.CoreV1().Nodes().Get(ctx, p.node, metav1.GetOptions{})
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
	node, err := p.cluster.Client.CoreV1().Nodes().Get(ctx, p.node, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return node.Labels[releaseLabel]
}

func (p *publisher) state() (s followState) {
	p.t.Helper()
	text, err := os.ReadFile(p.kept)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// logged counts the rounds that said something.
func (p *publisher) logged(text string) int {
	p.t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Count(string(log), text)
}
