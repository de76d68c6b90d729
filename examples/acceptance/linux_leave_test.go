package acceptance_test

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// daemon runs a pod of a DaemonSet on the Linux node, which a drain leaves there. wantPod has brought its image.
func (b *linuxBed) daemon(ctx context.Context) {
	b.t.Helper()
	labels := map[string]string{"app": "daemon"}
	spec := corev1.PodSpec{NodeName: linuxNode,
		Containers: []corev1.Container{{Name: "serve", Image: serveImage, ImagePullPolicy: corev1.PullNever}}}
	set, err := b.cluster.Client.AppsV1().DaemonSets(metav1.NamespaceDefault).Create(ctx,
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemon"},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}},
		metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	pods := b.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault)
	_, err = pods.Create(ctx, &corev1.Pod{Spec: spec, ObjectMeta: metav1.ObjectMeta{Name: "daemon", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set,
			appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}}}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	until(ctx, b.t, "the pod of the DaemonSet", func() error {
		pod, err := pods.Get(ctx, "daemon", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("the pod is %s: %+v", pod.Status.Phase, pod.Status)
		}
		return err
	})
}

// wantNoShim checks that no container outlives the runtime.
func (b *linuxBed) wantNoShim(ctx context.Context) {
	b.t.Helper()
	names, err := b.machine.Run(ctx, "sh", "-c", "cat /proc/[0-9]*/comm")
	if err != nil {
		b.t.Fatal(err)
	}
	if strings.Contains(names, "containerd-shim") {
		b.t.Errorf("a container is still on the machine:\n%s", names)
	}
}
