package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

// Namespaces lists those with a label.
func (k *client) Namespaces(ctx context.Context, label string) ([]kube.Namespace, error) {
	list, err := k.core.Namespaces().List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, k.fail(ctx, "listing the namespaces with "+label, err)
	}
	var out []kube.Namespace
	for _, n := range list.Items {
		ns := kube.Namespace{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations, Created: n.CreationTimestamp.Time,
			Ending: n.DeletionTimestamp != nil}
		for _, c := range n.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				ns.Remains = strings.TrimPrefix(ns.Remains+"; "+c.Message, "; ")
			}
		}
		out = append(out, ns)
	}
	slices.SortFunc(out, func(a, b kube.Namespace) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// MakeNamespace creates it. Pods can be created in it once it has its account "default", which admission
// assigns to every pod that names none.
func (k *client) MakeNamespace(ctx context.Context, n kube.Namespace) error {
	what := "creating the namespace " + n.Name
	_, err := k.core.Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}},
		metav1.CreateOptions{FieldManager: k.manager})
	if err != nil {
		return k.fail(ctx, what, err)
	}
	err = wait.Until(ctx, 200*time.Millisecond, func() (bool, error) {
		_, err := k.core.ServiceAccounts(n.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: it has no account \"default\", which kube-controller-manager creates: %w", what,
			context.Cause(ctx))
	}
	return k.fail(ctx, what, err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// EndNamespace requests the deletion.
func (k *client) EndNamespace(ctx context.Context, name string) error {
	return absentIsDone(k.fail(ctx, "deleting the namespace "+name,
		k.core.Namespaces().Delete(ctx, name, metav1.DeleteOptions{})))
}

func absentIsDone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// EndPods deletes pods with no grace, so that the API server does not wait for kubelets.
func (k *client) EndPods(ctx context.Context, namespace string) error {
	what := "deleting the pods of the namespace " + namespace
	list, err := k.core.Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return absentIsDone(k.fail(ctx, what, err))
	}
	var now int64
	var all []error
	for _, p := range list.Items {
		all = append(all, absentIsDone(
			k.fail(ctx, what, k.core.Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))))
	}
	return errors.Join(all...)
}

// podGrace is the time in seconds that a pod of Workloads gets to end.
const podGrace = 5

// RunPod creates a pod.
func (k *client) RunPod(ctx context.Context, p kube.PodSpec) error {
	no, grace := false, int64(podGrace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, NodeSelector: p.NodeSelector, TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no, HostNetwork: p.HostNetwork,
			Subdomain: p.Subdomain, Hostname: hostnameOf(p),
			OS: &corev1.PodOS{Name: corev1.OSName(p.OS)}}}
	if p.Once {
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	for _, t := range p.Tolerates {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual,
			Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	for _, c := range p.Containers {
		box := corev1.Container{Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args}
		if c.Port != 0 {
			box.Ports = []corev1.ContainerPort{{ContainerPort: c.Port}}
			box.ReadinessProbe = &corev1.Probe{PeriodSeconds: 2, TimeoutSeconds: 5,
				ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(c.Port)}}}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, box)
	}
	_, err := k.core.Pods(p.Namespace).Create(ctx, pod, metav1.CreateOptions{FieldManager: k.manager})
	return k.fail(ctx, "creating the pod "+p.Namespace+"/"+p.Name, err)
}

// hostnameOf is the name of a pod below its headless service: without a hostname it has none in the cluster's DNS.
func hostnameOf(p kube.PodSpec) string {
	if p.Subdomain == "" {
		return ""
	}
	return p.Name
}

// PodState reads a pod, and its last warning if it waits without a reason.
func (k *client) PodState(ctx context.Context, namespace, name string) (kube.PodState, error) {
	what := "reading the pod " + namespace + "/" + name
	p, err := k.core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return kube.PodState{}, k.fail(ctx, what, err)
	}
	out := podStateOf(p)
	if out.Waiting == "" || strings.Contains(out.Waiting, ": ") {
		return out, nil
	}
	events, err := k.core.Events(namespace).List(ctx,
		metav1.ListOptions{FieldSelector: "type=Warning,involvedObject.name=" + name})
	if err != nil {
		return out, k.fail(ctx, what, err)
	}
	var last *corev1.Event
	for i := range events.Items {
		if e := &events.Items[i]; last == nil || last.LastTimestamp.Before(&e.LastTimestamp) {
			last = e
		}
	}
	if last != nil {
		out.Waiting += ": " + last.Reason + ": " + last.Message
	}
	return out, nil
}

func podStateOf(p *corev1.Pod) kube.PodState {
	out := kube.PodState{Node: p.Spec.NodeName, IP: p.Status.PodIP, Waiting: waitingOf(p)}
	started := 0
	for _, c := range p.Spec.Containers {
		s := kube.ContainerState{Name: c.Name}
		i := slices.IndexFunc(p.Status.ContainerStatuses, func(have corev1.ContainerStatus) bool {
			return have.Name == c.Name
		})
		if i >= 0 {
			have := p.Status.ContainerStatuses[i]
			s.Tries, s.Up = have.RestartCount, have.State.Running != nil
			if have.State.Running != nil || have.State.Terminated != nil || have.RestartCount > 0 {
				started++
			}
			last := have.State.Terminated
			if last != nil {
				s.Tries++
				s.Done = last.ExitCode == 0
			} else {
				last = have.LastTerminationState.Terminated
			}
			if last != nil && last.ExitCode != 0 {
				s.Failed, s.ExitCode = true, last.ExitCode
			}
		}
		out.Containers = append(out.Containers, s)
	}
	out.Running = started == len(p.Spec.Containers)
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			out.Ready = c.Status == corev1.ConditionTrue
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			out.Waiting = "no Node takes it: " + c.Message
		}
	}
	if p.Spec.NodeName == "" && !strings.HasPrefix(out.Waiting, "no Node") {
		out.Waiting = "no Node takes it: no scheduler has seen it yet"
	}
	if p.Status.Phase == corev1.PodFailed {
		out.Waiting = strings.TrimSuffix("the Node rejected or ended it: "+p.Status.Reason+": "+p.Status.Message, ": ")
	}
	if out.Running {
		out.Waiting = ""
	}
	return out
}

// MakeService creates a service of type NodePort.
func (k *client) MakeService(ctx context.Context, s kube.ServiceSpec) (kube.Service, error) {
	want := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: s.Selector,
			Ports: []corev1.ServicePort{{Port: s.Port, TargetPort: intstr.FromInt32(s.Port)}}}}
	if s.Headless {
		want.Spec.Type, want.Spec.ClusterIP = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone
	}
	have, err := k.core.Services(s.Namespace).Create(ctx, want, metav1.CreateOptions{FieldManager: k.manager})
	if err != nil {
		return kube.Service{}, k.fail(ctx, "creating the service "+s.Namespace+"/"+s.Name, err)
	}
	return serviceOf(have), nil
}
