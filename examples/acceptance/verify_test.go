package acceptance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// reported runs a command of nodejoin that prints one JSON object, and gives it with
// the exit code.
func reported(ctx context.Context, t *testing.T, into any, args ...string) (code int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, string(released(t)), args...)
	cmd.Dir = repository(t)
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK=", "HOME="+home(t), "XDG_CACHE_HOME=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if bad := json.Unmarshal(out, into); bad != nil {
		t.Fatalf("%v: %v, %v\n%s%s", args, err, bad, out, stderr.String())
	}
	return cmd.ProcessState.ExitCode()
}

// doctorReport is what the tests look at of `nodejoin doctor --json`.
type doctorReport struct {
	Errors int
	Hosts  []struct {
		Joined    bool
		Mended    []string
		Mutations int64
		Findings  []struct{ ID, Severity, Seen string }
	}
}

func (r doctorReport) errors() (out []string) {
	for _, f := range r.Hosts[0].Findings {
		if f.Severity == "error" {
			out = append(out, f.ID+": "+f.Seen)
		}
	}
	return out
}

// wantDoctor: on a joined machine in order doctor finds no error but that the cluster
// has no DNS, which is so; a file of flanneld's that is gone is found, and comes back by
// --fix, which starts the real flanneld anew.
func (b *bed) wantDoctor(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	look := func(code int, more ...string) (r doctorReport) {
		t.Helper()
		if have := reported(ctx, t, &r, append(append([]string{"doctor", "--json"}, more...), args...)...); have != code || len(r.Hosts) != 1 || !r.Hosts[0].Joined || r.Hosts[0].Mutations != 0 {
			t.Errorf("exit code %d, want %d: %+v", have, code, r)
		}
		return r
	}
	if have := look(1).errors(); len(have) != 1 || !strings.HasPrefix(have[0], "dns: ") {
		t.Errorf("errors: %q", have)
	}
	dns := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.10", Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}}}}
	if _, err := b.cluster.Client.CoreV1().Services("kube-system").Create(ctx, dns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	look(0)
	if err := os.Remove(b.host.Path(`C:\run\flannel\subnet.env`)); err != nil {
		t.Fatal(err)
	}
	if have := look(1).errors(); len(have) != 1 || !strings.HasPrefix(have[0], "subnet-file: ") {
		t.Errorf("errors: %q", have)
	}
	if r := look(0, "--fix", "--auto-approve"); !strings.Contains(strings.Join(r.Hosts[0].Mended, " "), ".flanneld") {
		t.Errorf("mended: %q", r.Hosts[0].Mended)
	}
	if _, err := os.Stat(b.host.Path(`C:\run\flannel\subnet.env`)); err != nil {
		t.Error(err)
	}
}

// verifyReport is what the tests look at of `nodejoin verify --json`.
type verifyReport struct {
	Failed             int
	Namespace, Remains string
	Flows              []verifyFlow
	Cluster            any `json:"cluster_error"`
}

type verifyFlow struct{ Node, Flow, Status, Detail string }

// wantVerify: no Windows container starts under Wine. verify says what it waited for
// and saw, and leaves nothing in the cluster.
func (b *bed) wantVerify(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	stop := schedule(ctx, t, b.cluster)
	defer stop()
	var r verifyReport
	code := reported(ctx, t, &r, append([]string{"verify", "--json", "--start-timeout", "20s", "--clean-timeout", "3m"}, args...)...)
	if code != 1 || r.Failed != 1 || r.Remains != "" || r.Namespace == "" || r.Cluster != nil {
		t.Errorf("exit code %d: %+v", code, r)
	}
	for _, f := range r.Flows {
		want := "not_possible"
		switch f.Flow {
		case "node":
			want = "pass"
		case "web-server":
			want = "fail"
			if !strings.Contains(f.Detail, "waited until the web server runs (image mcr.microsoft.com/windows/servercore:") || strings.Contains(f.Detail, "no Node takes it") {
				t.Error(f.Detail)
			}
			t.Log(f.Detail)
		}
		if f.Status != want {
			t.Errorf("%+v, want %s", f, want)
		}
	}
	if _, err := b.cluster.Client.CoreV1().Namespaces().Get(ctx, r.Namespace, metav1.GetOptions{}); err == nil {
		t.Errorf("the namespace %s is still there", r.Namespace)
	}
}

// schedule binds pods of verify to the node that they name, as a scheduler does, until
// it is stopped.
func schedule(ctx context.Context, t *testing.T, c *controlplane.Cluster) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	once := func() error {
		list, err := c.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			node := p.Spec.NodeSelector[corev1.LabelHostname]
			if node == "" || p.DeletionTimestamp != nil {
				continue
			}
			nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: corev1.LabelHostname + "=" + node})
			if err != nil {
				return err
			}
			if len(nodes.Items) != 1 {
				return fmt.Errorf("%d nodes have the host name %s", len(nodes.Items), node)
			}
			bind := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: nodes.Items[0].Name}}
			_ = c.Client.CoreV1().Pods(p.Namespace).Bind(ctx, bind, metav1.CreateOptions{}) // one that went meanwhile
		}
		return nil
	}
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			if err := once(); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				done <- nil
				return
			}
		}
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the scheduler of the test: %v", err)
		}
	}
}
