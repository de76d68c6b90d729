package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reported runs a command of nodejoin that prints one JSON object, and returns it with the exit code.
func reported(ctx context.Context, t *testing.T, into any, args ...string) (code int) {
	t.Helper()
	out, said, code := released(t).outputs(ctx, t, args...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v: exit code %d, %v\n%s%s", args, code, err, out, said)
	}
	return code
}

// doctorReport is the part of `nodejoin doctor --json` that the tests use.
type doctorReport struct {
	Errors int
	Hosts  []struct {
		Joined    bool
		Fixed     []string
		Mutations int64
		Findings  []finding
	}
}

type finding struct{ ID, Severity, Observed string }

func (r doctorReport) errors() (out []string) {
	for _, f := range r.Hosts[0].Findings {
		if f.Severity == "error" {
			out = append(out, f.ID+": "+f.Observed)
		}
	}
	return out
}

// wantDoctor: on a joined machine in good order, doctor finds no error except that the cluster has no DNS,
// which is true. It finds that a file of flanneld is missing, and --fix restores it by restarting the real
// flanneld. It finds a DaemonSet whose pod does not belong here.
func (b *bed) wantDoctor(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	look := func(code int, more ...string) (r doctorReport) {
		t.Helper()
		if have := reported(ctx, t, &r, append(append([]string{"doctor", "--json"}, more...), args...)...); have != code ||
			len(r.Hosts) != 1 || !r.Hosts[0].Joined || r.Hosts[0].Mutations != 0 {
			t.Errorf("exit code %d, want %d: %+v", have, code, r)
		}
		return r
	}
	if have := look(1).errors(); len(have) != 1 || !strings.HasPrefix(have[0], "dns: ") {
		t.Errorf("the errors are %q", have)
	}
	dns := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kube-dns"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.10",
			Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}}}}
	if _, err := b.cluster.Client.CoreV1().Services("kube-system").Create(ctx, dns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	look(0)
	if err := os.Remove(b.host.Path(`C:\run\flannel\subnet.env`)); err != nil {
		t.Fatal(err)
	}
	if have := look(1).errors(); len(have) != 1 || !strings.HasPrefix(have[0], "subnet-file: ") {
		t.Errorf("the errors are %q", have)
	}
	if r := look(0, "--fix", "--auto-approve"); !strings.Contains(strings.Join(r.Hosts[0].Fixed, " "), ".flanneld") {
		t.Errorf("fixed: %q", r.Hosts[0].Fixed)
	}
	if _, err := os.Stat(b.host.Path(`C:\run\flannel\subnet.env`)); err != nil {
		t.Error(err)
	}
	ended := b.strayDaemonSet(ctx, t)
	if have := look(0).Hosts[0].Findings; !slices.ContainsFunc(have, func(f finding) bool {
		return f.ID == "daemon-set" && strings.HasPrefix(f.Observed, "DaemonSet default/stray names no operating system")
	}) {
		t.Errorf("the findings are %+v", have)
	}
	ended()
}

// strayDaemonSet gives the node a pod of a DaemonSet that names no operating system, as its controller would, which
// does not run here. No container starts under Wine, as that of a Linux image would not on Windows. The returned
// function removes it.
func (b *bed) strayDaemonSet(ctx context.Context, t *testing.T) (end func()) {
	t.Helper()
	labels := map[string]string{"app": "stray"}
	meta := metav1.ObjectMeta{Name: "stray", Labels: labels}
	spec := corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "stray", Image: "example.com/stray"}}}
	sets := b.cluster.Client.AppsV1().DaemonSets(metav1.NamespaceDefault)
	set, err := sets.Create(ctx, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: meta, Spec: spec}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set,
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	spec.NodeName = nodeName
	pods := b.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the kubelet has the pod of "+meta.Name, func() error {
		pod, err := pods.Get(ctx, meta.Name, metav1.GetOptions{})
		if err == nil && len(pod.Status.ContainerStatuses) == 0 {
			err = fmt.Errorf("its status is %+v", pod.Status)
		}
		return err
	})
	return func() {
		var now int64
		err := errors.Join(sets.Delete(ctx, meta.Name, metav1.DeleteOptions{}),
			pods.Delete(ctx, meta.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		if err != nil {
			t.Error(err)
		}
	}
}

// verifyReport is the part of `nodejoin verify --json` that the tests use.
type verifyReport struct {
	Failed             int
	Namespace, Remains string
	Flows              []verifyFlow
	Cluster            any `json:"cluster_error"`
}

type verifyFlow struct{ Node, Flow, Status, Detail string }

// wantVerify: on the Linux node of a mixed cluster every test passes that is possible with one Linux node, with
// the real scheduler, kubelet, CNI plugins and kube-proxy. On the Windows node only the start of a container
// fails, because of Wine. Nothing is left.
func (b *linuxBed) wantVerify(ctx context.Context, args []string) {
	b.t.Helper()
	if err := b.cluster.StartScheduler(); err != nil {
		b.t.Fatal(err)
	}
	startDNS(ctx, b.t, b.cluster, b.machine.Gateway())
	outside := httptest.NewUnstartedServer(http.NotFoundHandler())
	listener, err := net.Listen("tcp", net.JoinHostPort(b.machine.Gateway(), "0"))
	if err != nil {
		b.t.Fatal(err)
	}
	outside.Listener.Close()
	outside.Listener = listener
	outside.Start()
	defer outside.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	var r verifyReport
	code := reported(ctx, b.t, &r,
		append([]string{"verify", "--json", "--start-timeout", "45s", "--clean-timeout", "90s", "--image",
			"linux=" + agnhostImage, "--outbound", "http://" + net.JoinHostPort(outsideName, port)}, args...)...)
	if code != 1 || r.Failed != 1 || r.Remains != "" || r.Namespace == "" || r.Cluster != nil {
		b.t.Errorf("exit code %d: %+v", code, r)
	}
	const noServer = "the web server does not run on the node"
	want := map[string]verifyFlow{
		nodeName + " node": {Status: "pass", Detail: "Ready, kubelet v1.36.3"},
		nodeName + " web-server": {Status: "fail",
			Detail: "waited until the web server runs (image mcr.microsoft.com/windows/servercore:"},
		linuxNode + " node":           {Status: "pass", Detail: "Ready, kubelet v1.36.3"},
		linuxNode + " web-server":     {Status: "pass", Detail: agnhostImage},
		linuxNode + " pod-to-linux":   {Status: "not_possible", Detail: "there is no other Linux node that takes pods"},
		linuxNode + " pod-to-windows": {Status: "not_possible", Detail: "the web server does not run on " + nodeName},
		linuxNode + " node-port":      {Status: "pass", Detail: "http://" + b.machine.IP() + ":"},
	}
	for _, flow := range []string{"node-to-pod", "pod-to-pod", "pod-to-node", "service", "name", "short-name",
		"pod-name",
		"outbound", "outbound-name", "logs", "exec", "port-forward", "metrics",
		"node-port-local", "service-from-node"} {
		want[linuxNode+" "+flow] = verifyFlow{Status: "pass"}
		want[nodeName+" "+flow] = verifyFlow{Status: "not_possible", Detail: noServer}
	}
	for _, flow := range []string{"pod-to-linux", "pod-to-windows", "node-port"} {
		want[nodeName+" "+flow] = verifyFlow{Status: "not_possible", Detail: noServer}
	}
	for _, f := range r.Flows {
		b.t.Logf("%s %s: %s %s", f.Node, f.Flow, f.Status, f.Detail)
		w, ok := want[f.Node+" "+f.Flow]
		if !ok || f.Status != w.Status || !strings.Contains(f.Detail, w.Detail) {
			b.t.Errorf("%+v, want %+v", f, w)
		}
		delete(want, f.Node+" "+f.Flow)
	}
	if len(want) > 0 {
		b.t.Errorf("no result for %v", want)
	}
	if _, err := b.cluster.Client.CoreV1().Namespaces().Get(ctx, r.Namespace,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		b.t.Errorf("the namespace %s is still there: %v", r.Namespace, err)
	}
	// Nothing runs. The kubelet garbage-collects what the runtime still has on record.
	if left, err := b.machine.Command(ctx, "/usr/local/bin/ctr", "--namespace", "k8s.io", "tasks", "list",
		"--quiet").Output(); err != nil || len(left) > 0 {
		b.t.Errorf("containers left on the Linux machine: %q, %v", left, err)
	}
}

// wantVerify: no Windows container starts under Wine. verify reports what it waited for and saw, and leaves
// nothing in the cluster.
func (b *bed) wantVerify(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	if err := b.cluster.StartScheduler(); err != nil {
		t.Fatal(err)
	}
	var r verifyReport
	code := reported(ctx, t, &r, append([]string{"verify", "--json", "--start-timeout", "20s", "--clean-timeout", "3m"},
		args...)...)
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
			if !strings.Contains(f.Detail, "waited until the web server runs (image mcr.microsoft.com/windows/servercore:") ||
				strings.Contains(f.Detail, "no Node takes it") {
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
