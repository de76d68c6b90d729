package acceptance_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// kubeadmProxies select the pods of the kube-proxy that kubeadm init has made.
const kubeadmProxies = "k8s-app=kube-proxy"

// bringProxy gives a node that has just joined the images of kubeadm's pods. Until then nothing makes rules of
// services there; then the pod of kube-proxy does.
func (b *linuxBed) bringProxy(ctx context.Context, version string) {
	b.t.Helper()
	b.wantNoProxy(ctx)
	importImages(ctx, b.t, b.machine) // pause is among them
	importPrograms(ctx, b.t, b.machine, addonImages(ctx, b.t, version)...)
	// The kubelet has tried to pull the image, and lets this pod wait before it tries again.
	if err := b.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: kubeadmProxies, FieldSelector: "spec.nodeName=" + b.name}); err != nil {
		b.t.Fatal(err)
	}
	b.wantProxyPods(ctx, version)
}

// wantProxyPods: kubeadm's kube-proxy of that version runs on each Linux node and nowhere else, and from the machine
// the address of the API server's service leads to it.
func (b *linuxBed) wantProxyPods(ctx context.Context, version string) {
	b.t.Helper()
	until(ctx, b.t, "the pods of kube-proxy "+version, func() error {
		pods, err := b.cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx,
			metav1.ListOptions{LabelSelector: kubeadmProxies})
		if err != nil {
			return err
		}
		var on []string
		for _, p := range pods.Items {
			on = append(on, p.Spec.NodeName)
			ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			if image := p.Spec.Containers[0].Image; !ready || image != proxyImageName(version) {
				return fmt.Errorf("%s on %s, image %s: %+v", p.Name, p.Spec.NodeName, image, p.Status)
			}
		}
		if slices.Sort(on); !slices.Equal(on, []string{controlPlaneNode, b.name}) {
			return fmt.Errorf("they are on %v", on)
		}
		return nil
	})
	until(ctx, b.t, "its rules", func() error {
		rules, err := b.machine.Run(ctx, "iptables-save", "-t", "nat")
		if err == nil && !strings.Contains(rules, "-A KUBE-SERVICES -d "+controlplane.ServiceIP+"/32") {
			err = fmt.Errorf("the rules are\n%s", tail(rules))
		}
		return err
	})
	c, err := b.machine.Dial(ctx, "tcp", controlplane.ServiceIP+":443")
	if err != nil {
		b.t.Errorf("the address of the API server's service: %v", err)
		return
	}
	_ = c.Close()
}

// wantOneProxy: doctor warns of a plan whose Linux node has a kube-proxy of its own beside kubeadm's, and not of args.
func (b *linuxBed) wantOneProxy(ctx context.Context, args, own []string) {
	b.t.Helper()
	for _, plan := range []struct {
		args  []string
		twice bool
	}{{args, false}, {own, true}} {
		var r doctorReport
		code := reported(ctx, b.t, &r,
			append([]string{"doctor", "--json", "--target", "node." + b.name}, plan.args...)...)
		if len(r.Hosts) != 1 || !r.Hosts[0].Joined {
			b.t.Fatalf("exit code %d: %+v", code, r)
		}
		if slices.ContainsFunc(r.Hosts[0].Findings, func(f finding) bool {
			return f.ID == "kube-proxy-twice" && f.Severity == "warning"
		}) != plan.twice {
			b.t.Errorf("two kube-proxies: want %v, the findings are %+v", plan.twice, r.Hosts[0].Findings)
		}
	}
}
