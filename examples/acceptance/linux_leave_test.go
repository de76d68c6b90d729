package acceptance_test

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workloads runs two pods on the Linux node: one of a DaemonSet, which a drain leaves there, and one of a Deployment
// with an emptyDir. The controller of DaemonSets and the scheduler do not run here: the test makes the pod of the
// first and binds that of the second, whose replacement stays pending. wantPod has brought the image.
func (b *linuxBed) workloads(ctx context.Context) {
	b.t.Helper()
	apps, pods := b.cluster.Client.AppsV1(), b.cluster.Client.CoreV1().Pods(metav1.NamespaceDefault)
	template := func(app string, spec corev1.PodSpec) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		labels := map[string]string{"app": app}
		return &metav1.LabelSelector{MatchLabels: labels},
			corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	}
	grace := int64(1)
	spec := corev1.PodSpec{TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{Name: "serve", Image: serveImage, ImagePullPolicy: corev1.PullNever}}}
	onNode := *spec.DeepCopy()
	onNode.NodeName = linuxNode
	selector, daemon := template("daemon", onNode)
	set, err := apps.DaemonSets(metav1.NamespaceDefault).Create(ctx,
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemon"},
			Spec: appsv1.DaemonSetSpec{Selector: selector, Template: daemon}}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := pods.Create(ctx, &corev1.Pod{Spec: onNode, ObjectMeta: metav1.ObjectMeta{Name: "daemon",
		Labels: daemon.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set,
			appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}}}, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	spec.Volumes = []corev1.Volume{{Name: "scratch",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	selector, scratch := template("scratch", spec)
	if _, err := apps.Deployments(metav1.NamespaceDefault).Create(ctx,
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "scratch"},
			Spec: appsv1.DeploymentSpec{Selector: selector, Template: scratch}}, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	until(ctx, b.t, "the pod of the Deployment on the node", func() error {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=scratch"})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: list.Items[0].Name},
			Target: corev1.ObjectReference{Kind: "Node", Name: linuxNode}}, metav1.CreateOptions{})
	})
	for _, app := range []string{"daemon", "scratch"} {
		until(ctx, b.t, "the pod of "+app, func() error {
			list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
			if err == nil && (len(list.Items) != 1 || list.Items[0].Status.Phase != corev1.PodRunning) {
				err = fmt.Errorf("it does not run: %+v", list.Items)
			}
			return err
		})
	}
}

// wantNoContainer checks that nothing of a container outlives the runtime: no shim, mount or network namespace.
func (b *linuxBed) wantNoContainer(ctx context.Context) {
	b.t.Helper()
	names, err := b.machine.Run(ctx, "sh", "-c", "cat /proc/[0-9]*/comm")
	if err != nil {
		b.t.Fatal(err)
	}
	if strings.Contains(names, "containerd-shim") {
		b.t.Errorf("a container is still on the machine:\n%s", names)
	}
	mounts, err := b.machine.Run(ctx, "cat", "/proc/mounts")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range []string{"/var/lib/kubelet/", "/run/containerd/", "/run/netns/"} {
		if strings.Contains(mounts, dir) {
			b.t.Errorf("something is still mounted below %s:\n%s", dir, mounts)
		}
	}
}
