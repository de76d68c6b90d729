package acceptance_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/mirror"
)

// TestUpgrade: for a node of an older minor version, with pods of a Deployment, the plan shows what an upgrade
// means. An upgrade to a kubelet that does not run is rolled back, and the next upgrade succeeds. Both drain
// the node, and the pods come back.
func TestUpgrade(t *testing.T) {
	ctx, cancel := bounded(t, 20*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	old := b.planOf(components.OldKubernetes, mirror.OldKubernetesNode)
	mustApply(ctx, t, old)
	b.wantJoined(ctx)
	b.wantKubelet(ctx, components.OldKubernetes)
	b.schedule(ctx)
	pods := b.deploy(ctx)

	t.Run("shown", func(t *testing.T) {
		out, code := released(t).output(ctx, t,
			append([]string{"plan", "--detailed-exitcode"}, b.planOf(components.Kubernetes, mirror.KubernetesNode)...)...)
		for _, want := range []string{"upgrade of Kubernetes: " + components.OldKubernetes + " -> " + components.Kubernetes,
			"2 pods evicted", "kubelet stop", "rolled back to " + components.OldKubernetes} {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
				t.Errorf("plan does not say %q", want)
			}
		}
		if code != 2 || t.Failed() {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
	t.Run("rolled back", func(t *testing.T) {
		r := apply(ctx, t, b.planOf(components.Kubernetes, mirror.BrokenKubernetesNode), nil)
		if r.code != 1 || r.summary == nil || len(r.summary.Hosts) != 1 {
			t.Fatalf("apply with a kubelet that exits at once, want exit code 1 and one host: %s", r)
		}
		h := r.summary.Hosts[0]
		if h.Error == nil || h.Error.Step != "kubelet" && h.Error.Step != "kubelet_ready" || h.Rollback == nil ||
			h.Rollback.Error != nil || h.Rollback.Version != components.OldKubernetes || len(h.Rollback.Left) > 0 {
			t.Errorf("error %+v, rollback %+v, want an error of the kubelet and a complete rollback: %s", h.Error,
				h.Rollback, r)
		}
		if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(r.stderr, "|", "")), " "),
			"Node is Ready again with "+components.OldKubernetes) {
			t.Errorf("the output does not say that the node was rolled back: %s", r.stderr)
		}
		t.Logf("failed and rolled back after %.1fs: %s: %s", r.took.Seconds(), h.Error.Step, h.Error.Summary)
		b.wantKubelet(ctx, components.OldKubernetes)
		b.wantJoined(ctx)
		pods = b.wantOtherPods(ctx, pods)
		wantNothing(ctx, t, old)
	})
	t.Run("upgraded", func(t *testing.T) {
		args := b.planOf(components.Kubernetes, mirror.KubernetesNode)
		r := mustApply(ctx, t, args)
		t.Logf("upgraded after %.1fs", r.took.Seconds())
		b.wantKubelet(ctx, components.Kubernetes)
		b.wantJoined(ctx)
		b.wantOtherPods(ctx, pods)
		wantNothing(ctx, t, args)
	})
}

var (
	versionArgument = regexp.MustCompile(`(?m)^  kubernetes   = .*$`)
	programsBlock   = regexp.MustCompile(`(?m)^artifact "kubernetes_node" .*$`)
)

// planOf returns the arguments of the example plan with another version of Kubernetes,
// whose programs are the named artifact of the mirror.
func (b *bed) planOf(version, artifact string) []string {
	b.t.Helper()
	dir, artifacts, err := mirror.Make(b.t.Context(), componentSet(b.t), "windows")
	if err != nil {
		b.t.Fatal(err)
	}
	_, others, err := mirror.Make(b.t.Context(), componentSet(b.t), mirror.Others)
	if err != nil {
		b.t.Fatal(err)
	}
	maps.Copy(artifacts, others)
	text := exampleText(b.t)
	if !versionArgument.Match(text) || !programsBlock.Match(text) {
		b.t.Fatalf("%s does not have the version or the artifact that the test replaces", examplePlan)
	}
	a := artifacts[artifact]
	text = versionArgument.ReplaceAll(text, fmt.Appendf(nil, "  kubernetes = %q", version))
	text = programsBlock.ReplaceAll(text,
		fmt.Appendf(nil, "artifact \"kubernetes_node\" {\n  file   = %q\n  sha256 = %q\n}",
			filepath.Join(dir, a.File), a.SHA256))
	args := b.variables(b.host.Port()).write(b.t)
	args[len(args)-1] = filepath.Join(b.t.TempDir(), "plan.join.hcl")
	if err := os.WriteFile(args[len(args)-1], text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return args
}

// wantKubelet checks that the Node is Ready, has this version and accepts pods.
func (b *bed) wantKubelet(ctx context.Context, version string) {
	b.t.Helper()
	n, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if n.Status.NodeInfo.KubeletVersion != "v"+version || n.Spec.Unschedulable {
		b.t.Errorf("the kubelet is %s, cordoned: %v; want v%s that takes pods", n.Status.NodeInfo.KubeletVersion,
			n.Spec.Unschedulable, version)
	}
	for _, taint := range n.Spec.Taints {
		if strings.HasPrefix(taint.Key, "nodejoin") {
			b.t.Errorf("taint %+v is left", taint)
		}
	}
}

// schedule replaces kube-scheduler until the test ends: it binds unbound pods to the node while the node
// accepts pods.
func (b *bed) schedule(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	b.t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			n, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
			if err != nil || n.Spec.Unschedulable {
				continue
			}
			pods, err := b.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx,
				metav1.ListOptions{FieldSelector: "spec.nodeName="})
			if err != nil {
				continue
			}
			for _, p := range pods.Items {
				// A binding that fails is tried again in the next round.
				_ = b.cluster.Client.CoreV1().Pods(p.Namespace).Bind(ctx,
					&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID},
						Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}, metav1.CreateOptions{})
			}
		}
	}()
}

// deploy creates a Deployment of two pods and returns the UIDs of those that are bound. Their containers never
// start here.
func (b *bed) deploy(ctx context.Context) []string {
	b.t.Helper()
	labels := map[string]string{"app": "web"}
	replicas, grace, no := int32(2), int64(1), false
	_, err := b.cluster.Client.AppsV1().Deployments(metav1.NamespaceDefault).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
				NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
				Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "web", Image: "registry.invalid/web:1",
					ImagePullPolicy: corev1.PullNever}},
			}}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.wantOtherPods(ctx, nil)
}

// wantOtherPods waits for new pods of the Deployment on the node and returns their UIDs.
func (b *bed) wantOtherPods(ctx context.Context, before []string) []string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		var uids, names []string
		pods, err := b.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx,
			metav1.ListOptions{LabelSelector: "app=web"})
		if err == nil {
			for _, p := range pods.Items {
				names = append(names, fmt.Sprintf("%s on %q", p.Name, p.Spec.NodeName))
				if p.Spec.NodeName == nodeName && p.DeletionTimestamp == nil {
					uids = append(uids, string(p.UID))
				}
			}
		}
		if len(uids) == 2 && !slices.ContainsFunc(uids, func(u string) bool { return slices.Contains(before, u) }) {
			return uids
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("the node did not get two new pods: %v, %v", names, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
