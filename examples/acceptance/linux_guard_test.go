package acceptance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// wantGuarded: nodejoin-node starts units that were stopped, and restores files that were changed or deleted. What an
// operator stops while the node is paused stays stopped.
func (b *linuxBed) wantGuarded(ctx context.Context, t *testing.T, args []string) {
	active := func(unit string) string {
		out, _ := b.machine.Run(ctx, "systemctl", "is-active", unit) // it fails where the unit is not active
		return strings.TrimSpace(out)
	}
	run := func(argv ...string) {
		t.Helper()
		if _, err := b.machine.Run(ctx, argv...); err != nil {
			t.Fatal(err)
		}
	}
	changed := []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes/kube-proxy.yaml",
		"/etc/systemd/system/flanneld.service"}
	const lost = "/etc/cni/net.d/10-flannel.conflist"
	before := map[string][]byte{}
	for _, path := range append(changed, lost) {
		text, err := os.ReadFile(b.machine.Path(path))
		if err != nil {
			t.Fatal(err)
		}
		before[path] = text
	}
	run("systemctl", "stop", "kubelet", "flanneld")
	for _, path := range changed {
		text := append([]byte("# somebody was here\n"), before[path]...)
		if err := os.WriteFile(b.machine.Path(path), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(b.machine.Path(lost)); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the units that were stopped, and the files as they were", func() error {
		for _, unit := range []string{"containerd", "kubelet", "flanneld", "kube-proxy"} {
			if is := active(unit); is != "active" {
				return fmt.Errorf("%s is %s", unit, is)
			}
		}
		for path, want := range before {
			if text, err := os.ReadFile(b.machine.Path(path)); err != nil || !bytes.Equal(text, want) {
				return errors.Join(err, fmt.Errorf("%s is not as it was", path))
			}
		}
		return nil
	})
	until(ctx, t, "an entry in the journal", func() error {
		out, err := b.machine.Run(ctx, "journalctl", "--unit=nodejoin-node", "--output=cat", "--no-pager")
		if err == nil && !strings.Contains(out, "is in order again. Done: ") {
			err = fmt.Errorf("the journal has\n%s", tail(out))
		}
		return err
	})
	wantReported(ctx, t, b.cluster, linuxNode, "Fixed")
	b.wantPaused(ctx, t, args, active, run)
	wantNothing(ctx, t, args)
}

// wantReported waits until nodejoin-node has told the cluster that the Node is in order, with an event of the reason;
// "" = the condition alone.
func wantReported(ctx context.Context, t *testing.T, cluster *controlplane.Cluster, node, reason string) {
	t.Helper()
	until(ctx, t, "the condition of the Node and the event "+reason, func() error {
		have, err := cluster.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(have.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == "NodejoinHealthy" && c.Status == corev1.ConditionTrue && c.Reason == "InOrder"
		}) {
			return fmt.Errorf("the Node has the conditions %+v", have.Status.Conditions)
		}
		if reason == "" {
			return nil
		}
		events, err := cluster.Client.CoreV1().Events("default").List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node + ",reason=" + reason})
		if err == nil && (len(events.Items) == 0 || events.Items[0].Source.Component != "nodejoin-node") {
			err = fmt.Errorf("the Node has the events %+v", events.Items)
		}
		return err
	})
}

func (b *linuxBed) wantPaused(ctx context.Context, t *testing.T, args []string, active func(string) string,
	run func(...string)) {
	t.Helper()
	target := []string{"--target", "node." + linuxNode}
	if out, code := released(t).output(ctx, t, append(append([]string{"pause"}, target...), args...)...); code != 0 {
		t.Fatalf("pause: exit code %d\n%s", code, out)
	}
	run("systemctl", "stop", "kube-proxy")
	state := b.machine.Path("/var/lib/nodejoin/guard.json")
	if err := os.Remove(state); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	until(ctx, t, "a check of the paused node", func() error {
		text, err := os.ReadFile(state)
		if err == nil && !bytes.Contains(text, []byte(`"kube_proxy"`)) {
			err = fmt.Errorf("it has found nothing: %s", text)
		}
		return err
	})
	if is := active("kube-proxy"); is == "active" {
		t.Error("the guard has started a unit of a paused node")
	}
	if out, code := released(t).output(ctx, t, append(append([]string{"unpause"}, target...), args...)...); code != 0 {
		t.Fatalf("unpause: exit code %d\n%s", code, out)
	}
	until(ctx, t, "a check of the node that finds nothing, and kube-proxy after the pause", func() error {
		var have struct{ Problems []any }
		text, err := os.ReadFile(state)
		if err = errors.Join(err, json.Unmarshal(text, &have)); err == nil && len(have.Problems) > 0 {
			err = fmt.Errorf("it has found %v", have.Problems)
		}
		if is := active("kube-proxy"); err == nil && is != "active" {
			err = fmt.Errorf("kube-proxy is %s", is)
		}
		return err
	})
}
