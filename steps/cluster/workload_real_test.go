package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nodejoin/steps/kube"
	"nodejoin/steps/verify"
)

// workloads creates what verify creates, plays the scheduler and the kubelet, and checks
// each stage; then verify itself runs without either.
func (p *controlPlane) workloads(ctx context.Context, a kube.API, kubelet *kubernetes.Clientset) {
	const ns, label = "nodejoin-verify-test", "example.test/verify"
	p.must(a.MakeNamespace(ctx, kube.Namespace{Name: ns,
		Labels:      map[string]string{label: "", "pod-security.kubernetes.io/enforce": "baseline"},
		Annotations: map[string]string{"a": "b"}}))
	list, err := a.Namespaces(ctx, label)
	if err != nil || len(list) != 1 || list[0].Name != ns || list[0].Annotations["a"] != "b" || list[0].Ending {
		p.t.Fatalf("namespaces: %+v, %v", list, err)
	}
	p.must(a.RunPod(ctx, kube.PodSpec{Namespace: ns, Name: "ask", Labels: map[string]string{"app": "ask"}, OS: "windows",
		Once: true, NodeSelector: map[string]string{"kubernetes.io/os": "windows"},
		Tolerates: []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}},
		Containers: []kube.Container{{Name: "web", Image: "example/web", Command: []string{"a"}, Args: []string{"b"},
			Port: 80}, {Name: "one", Image: "example/web"}, {Name: "two", Image: "example/web"}}}))
	err = a.RunPod(ctx, kube.PodSpec{Namespace: ns, Name: "host", OS: "linux", HostNetwork: true,
		Containers: []kube.Container{{Name: "one", Image: "example/web"}}})
	if !errors.Is(err, kube.ErrForbidden) || !strings.Contains(err.Error(), "hostNetwork=true") {
		p.t.Errorf("a pod on the network of its node, under the baseline policy: %v", err)
	}
	svc, err := a.MakeService(ctx,
		kube.ServiceSpec{Namespace: ns, Name: "web", Selector: map[string]string{"app": "ask"}, Port: 80})
	if err != nil || !strings.HasPrefix(svc.ClusterIP, "10.96.") || len(svc.NodePorts) != 1 || svc.NodePorts[0] < 30000 {
		p.t.Errorf("service: %+v, %v", svc, err)
	}
	if all, err := a.Services(ctx); err != nil || !slices.ContainsFunc(all, func(s kube.Service) bool {
		return s.ClusterIP == svc.ClusterIP && s.String() == ns+"/web" && slices.Equal(s.NodePorts, svc.NodePorts)
	}) {
		p.t.Errorf("services: %+v, %v", all, err)
	}

	state := func() kube.PodState {
		p.t.Helper()
		s, err := a.PodState(ctx, ns, "ask")
		p.must(err)
		return s
	}
	if s := state(); s.Node != "" || s.Running || s.Waiting != "no Node takes it: no scheduler has seen it yet" {
		p.t.Errorf("new: %+v", s)
	}
	pods := p.admin.CoreV1().Pods(ns)
	p.must(pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "ask", Namespace: ns},
		Target: corev1.ObjectReference{Kind: "Node", Name: testNode}}, metav1.CreateOptions{}))
	report := func(phase corev1.PodPhase, ready corev1.ConditionStatus, boxes ...corev1.ContainerStatus) {
		p.t.Helper()
		p.until(10*time.Second, "the status is written", func(ctx context.Context) error {
			pod, err := pods.Get(ctx, "ask", metav1.GetOptions{})
			if err != nil {
				return err
			}
			pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs, pod.Status.ContainerStatuses = phase, "10.244.0.9",
				[]corev1.PodIP{{IP: "10.244.0.9"}}, boxes
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready},
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
			_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			return err
		})
	}
	box := func(name string, s corev1.ContainerState, last *corev1.ContainerStateTerminated,
		restarts int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Image: "example/web", State: s,
			LastTerminationState: corev1.ContainerState{Terminated: last}, RestartCount: restarts}
	}
	creating := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	report(corev1.PodPending, corev1.ConditionFalse, box("web", creating, nil, 0), box("one", creating, nil, 0),
		box("two", creating, nil, 0))
	_, err = p.admin.CoreV1().Events(ns).Create(ctx,
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "ask.1", Namespace: ns}, Type: "Warning",
			Reason: "FailedCreatePodSandBox", Message: "no such image",
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "ask"}, LastTimestamp: metav1.Now()},
		metav1.CreateOptions{})
	p.must(err)
	if s := state(); s.Node != testNode || s.Running ||
		s.Waiting != "ContainerCreating: FailedCreatePodSandBox: no such image" {
		p.t.Errorf("creating: %+v", s)
	}
	if on, err := a.Pods(ctx, testNode); err != nil || len(on) != 1 || on[0].Waiting != "ContainerCreating" ||
		on[0].Created.IsZero() {
		p.t.Errorf("pods of the node: %+v, %v", on, err)
	}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	report(corev1.PodRunning, corev1.ConditionFalse, box("web", runs, nil, 0), box("one", ended(0), nil, 0),
		box("two", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
			Message: "back-off"}}, ended(7).Terminated, 2))
	s := state()
	if !s.Running || s.Ready || s.IP != "10.244.0.9" || s.Waiting != "" || len(s.Containers) != 3 ||
		s.Containers[0].Done || !s.Containers[0].Up || s.Containers[1].Up || s.Containers[2].Up || !s.Containers[1].Done ||
		s.Containers[2].Done ||
		!s.Containers[2].Failed || s.Containers[2].ExitCode != 7 || s.Containers[2].Tries != 2 || s.Containers[1].Failed {
		p.t.Errorf("running: %+v", s)
	}
	report(corev1.PodRunning, corev1.ConditionTrue, box("web", runs, nil, 0), box("one", ended(0), nil, 0),
		box("two", ended(0), ended(7).Terminated, 3))
	if s := state(); !s.Ready || !s.Containers[2].Done || s.Containers[2].Failed {
		p.t.Errorf("ready: %+v", s)
	}

	// No kubelet ends the pod, so it disappears only if the deletion does not wait for it.
	p.must(a.EndNamespace(ctx, ns))
	p.must(a.EndNamespace(ctx, ns)) // again is not an error
	p.until(30*time.Second, "the namespace says what remains of it", func(ctx context.Context) error {
		list, err := a.Namespaces(ctx, label)
		if err != nil || len(list) != 1 || !list[0].Ending || list[0].Remains == "" {
			return fmt.Errorf("%+v, %w", list, errors.Join(err, errors.New("not yet")))
		}
		return nil
	})
	p.must(a.EndPods(ctx, ns))
	p.until(time.Minute, "the namespace is gone", func(ctx context.Context) error {
		list, err := a.Namespaces(ctx, label)
		if err == nil && len(list) > 0 {
			err = fmt.Errorf("%+v", list)
		}
		return err
	})
	p.must(a.EndNamespace(ctx, ns)) // absence is not an error
	p.must(a.EndPods(ctx, ns))

	// verify reports what it waited for, and leaves nothing. The Node is Ready, however long
	// the test took so far.
	p.until(10*time.Second, "the kubelet says again that it is ready", func(ctx context.Context) error {
		n, err := kubelet.CoreV1().Nodes().Get(ctx, testNode, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}
		_, err = kubelet.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
	p.verifies(ctx, a, "waited until the web server runs", "no scheduler has seen it yet")
	p.refused(ctx, a)
}

// verifies runs verify. Its web server must fail and say why, and nothing may be left.
func (p *controlPlane) verifies(ctx context.Context, a kube.API, has ...string) {
	p.t.Helper()
	r, err := verify.Run(ctx, verify.Options{API: a, Targets: []verify.Target{{Node: testNode}},
		Image: func(string, string) (string, error) { return "example/web", nil }, DNSDomain: "cluster.local",
		Outside: func(context.Context, string) error { return errors.New("nobody asks") }, Start: 2 * time.Second,
		Answer: 20 * time.Second, Clean: time.Minute, Reporter: quiet{}})
	p.must(err)
	for _, f := range r.Results {
		want := verify.NotPossible
		switch f.Flow {
		case "node":
			want = verify.Pass
		case "web-server":
			want = verify.Fail
			for _, text := range has {
				if !strings.Contains(f.Detail, text) {
					p.t.Errorf("%q is not in %s", text, f.Detail)
				}
			}
		}
		if f.Status != want {
			p.t.Errorf("%+v", f)
		}
	}
	if left, err := a.Namespaces(ctx, verify.Label); err != nil || len(left) > 0 || r.Remains != "" ||
		len(r.Results) != len(verify.Flows) || r.Failed() != 1 {
		p.t.Errorf("%+v; left %+v, %v", r, left, err)
	}
}

// refused: verify fails if the cluster refuses all its pods, by a policy or because its user
// may not create any.
func (p *controlPlane) refused(ctx context.Context, a kube.API) {
	const name = "nodejoin-verify-user"
	_, err := p.admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	p.must(err)
	_, err = p.admin.RbacV1().ClusterRoles().Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes", "serviceaccounts"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "create", "delete"}}}},
		metav1.CreateOptions{})
	p.must(err)
	_, err = p.admin.RbacV1().ClusterRoleBindings().Create(ctx,
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceDefault, Name: name}}},
		metav1.CreateOptions{})
	p.must(err)
	token, err := p.admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	p.must(err)
	less, err := Open(ctx, Config{Kubeconfig: p.writeKubeconfig(name, &clientcmdapi.AuthInfo{Token: token.Status.Token})})
	p.must(err)
	p.until(10*time.Second, "the role counts", func(ctx context.Context) error {
		_, err := less.Nodes(ctx)
		return err
	})
	p.verifies(ctx, less, "forbidden", `cannot create resource "pods"`)

	policies := p.admin.AdmissionregistrationV1()
	rule := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: []string{"pods"}}}
	matches := []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}}
	_, err = policies.ValidatingAdmissionPolicies().Create(ctx,
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: matches},
				Validations:      []admissionregistrationv1.Validation{{Expression: "false", Message: "no pods on a Sunday"}}}},
		metav1.CreateOptions{})
	p.must(err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(ctx,
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}},
		metav1.CreateOptions{})
	p.must(err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "dry"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "example/web"}}}}
	p.until(30*time.Second, "the policy counts", func(ctx context.Context) error {
		_, err := p.admin.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "no pods on a Sunday") {
			return errors.Join(errors.New("a pod is taken, or refused for another reason"), err)
		}
		return nil
	})
	p.verifies(ctx, a, "no pods on a Sunday")
	p.must(policies.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}))
	p.must(policies.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}))
}

type quiet struct{}

func (quiet) Waits(node, flow, seen string) {}
func (quiet) Done(verify.Result)            {}
