package acceptance_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// TestNodesFromBundle: a bundle is made with images of distribution's registry, over TLS and with a login. The plan is
// gone when a Linux machine and a Windows machine under Wine join from it, and the Linux one cannot reach the
// registry: the real containerd imports the images, a pod runs, and neither this machine, on which the Windows one
// runs, nor the Linux one sends a packet anywhere but to each other.
func TestNodesFromBundle(t *testing.T) {
	ctx, cancel := bounded(t, 9*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, false)
	w := newBed(ctx, t, b.cluster)
	site := filepath.Join(t.TempDir(), "site.tar")
	serve := b.bundle(ctx, site, w.windowsHost())
	args := []string{site, "--var", "dir=" + b.dir}
	if out, code := released(t).output(ctx, t, "bundle", "--check", site, "--var", "dir="+b.dir); code != 0 {
		t.Fatalf("bundle --check: exit code %d\n%s", code, out)
	}
	here, there := outgoing(ctx, t, func(ctx context.Context, argv ...string) *exec.Cmd {
		return exec.CommandContext(ctx, argv[0], argv[1:]...)
	}), outgoing(ctx, t, b.machine.Command)
	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs with %d mutating calls", first.took.Seconds(), first.mutations())
	w.wantJoined(ctx)
	b.wantLinuxNode(ctx, "cgroupfs")
	wantNothing(ctx, t, args)
	b.wantServed(ctx, serve, corev1.PullNever)
	for name, packets := range map[string]func() string{"this machine": here, "the Linux node": there} {
		if sent := packets(); sent != "" {
			t.Errorf("%s sent packets elsewhere:\n%s", name, sent)
		}
	}
}

// bundle makes a bundle of a join, and returns the name of the image for pods in it. more is text of the plan. Nothing
// that the bundle was made from is left.
func (b *linuxBed) bundle(ctx context.Context, to, more string) (serve string) {
	b.t.Helper()
	ca := newRegistryCA(b.t)
	addr := ca.basic(ctx, b.t.TempDir())
	layer := podLayer(b.t)
	ca.pushBoth(ctx, addr, "pause", layer, "/podimage")
	ca.pushImage(ctx, addr, "serve", layer, "/podimage", "serve")
	serve = addr + "/serve:1"
	text := strings.Join([]string{strings.Replace(b.head(), sandboxImage, addr+"/pause:1", 1),
		strings.Replace(b.linuxHost(), `labels = {`, fmt.Sprintf("images { pull = [%q] }\n  labels = {", serve), 1),
		more, "variable \"dir\" {\n  type = string\n}\n"}, "\n")
	text = strings.ReplaceAll(text, `"`+b.dir, `"${var.dir}`)
	args := writePlan(b.t, text)
	ca.logIn(addr)
	for _, call := range [][]string{{"lock", "--images"}, {"bundle", "-o", to}} {
		if out, code := ca.run(ctx, append(append(call, args...), "--var", "dir="+b.dir)...); code != 0 {
			b.t.Fatalf("%s: exit code %d\n%s", call, code, out)
		}
	}
	if err := os.RemoveAll(filepath.Dir(args[0])); err != nil {
		b.t.Fatal(err)
	}
	return serve
}

// outgoing counts the packets of a machine that go neither to itself nor to the network of the bed. A route takes
// them, so that they do not fail before they are counted. The result says which there were; "" = none.
func outgoing(ctx context.Context, t *testing.T,
	command func(ctx context.Context, argv ...string) *exec.Cmd) func() string {
	t.Helper()
	run := func(argv ...string) string {
		t.Helper()
		out, err := command(ctx, argv...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
		return string(out)
	}
	if !strings.Contains(run("ip", "route", "show", "default"), "default") {
		run("ip", "route", "add", "default", "dev", "lo")
	}
	const chain = "ELSEWHERE"
	run("iptables", "-N", chain)
	// The kernel reports the multicast groups of an interface that comes up (IGMP).
	for _, inside := range []string{"127.0.0.0/8", "224.0.0.0/4", linuxNetwork + ".0/24", controlplane.PodCIDR,
		controlplane.ServiceCIDR} {
		run("iptables", "-A", chain, "-d", inside, "-j", "RETURN")
	}
	run("iptables", "-A", chain, "-j", "DROP")
	run("iptables", "-I", "OUTPUT", "-j", chain)
	t.Cleanup(func() {
		for _, argv := range [][]string{{"-D", "OUTPUT", "-j", chain}, {"-F", chain}, {"-X", chain}} {
			_ = command(context.WithoutCancel(ctx), append([]string{"iptables"}, argv...)...).Run() // the machine may be gone
		}
	})
	return func() string {
		list := run("iptables", "-L", chain, "-v", "-n", "-x")
		for _, line := range strings.Split(list, "\n") {
			if f := strings.Fields(line); len(f) > 2 && f[2] == "DROP" && f[0] != "0" {
				return list
			}
		}
		return ""
	}
}

// servedPod is the name of the pod of wantServed.
const servedPod = "served"

// wantServed runs a pod with an image that the cluster's other pods do not have.
func (b *linuxBed) wantServed(ctx context.Context, image string, pull corev1.PullPolicy) {
	b.t.Helper()
	pods := b.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault)
	until(ctx, b.t, "the default service account", func() error {
		_, err := b.cluster.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	grace := int64(1)
	if _, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: servedPod}, Spec: corev1.PodSpec{
		NodeName: linuxNode, TerminationGracePeriodSeconds: &grace, // there is no scheduler here
		Containers: []corev1.Container{{Name: "serve", Image: image, ImagePullPolicy: pull}},
	}}, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	until(ctx, b.t, "the pod", func() error {
		pod, err := pods.Get(ctx, servedPod, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("the pod is %s: %+v", pod.Status.Phase, pod.Status)
		}
		return err
	})
}
