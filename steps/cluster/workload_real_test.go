package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodejoin/steps/kube"
	"nodejoin/steps/verify"
)

// workloads makes what verify makes, plays the scheduler and the kubelet, and looks at
// each stage; then verify itself runs, with neither.
func (p *controlPlane) workloads(ctx context.Context, a kube.API, kubelet *kubernetes.Clientset) {
	const ns, label = "nodejoin-verify-test", "example.test/verify"
	p.must(a.MakeNamespace(ctx, kube.Namespace{Name: ns, Labels: map[string]string{label: "", "pod-security.kubernetes.io/enforce": "baseline"}, Annotations: map[string]string{"a": "b"}}))
	list, err := a.Namespaces(ctx, label)
	if err != nil || len(list) != 1 || list[0].Name != ns || list[0].Annotations["a"] != "b" || list[0].Ending {
		p.t.Fatalf("namespaces: %+v, %v", list, err)
	}
	p.must(a.RunPod(ctx, kube.PodSpec{Namespace: ns, Name: "ask", Labels: map[string]string{"app": "ask"}, OS: "windows", Once: true, NodeSelector: map[string]string{"kubernetes.io/os": "windows"},
		Tolerates:  []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}},
		Containers: []kube.Container{{Name: "web", Image: "example/web", Command: []string{"a"}, Args: []string{"b"}, Port: 80}, {Name: "one", Image: "example/web"}, {Name: "two", Image: "example/web"}}}))
	svc, err := a.MakeService(ctx, kube.ServiceSpec{Namespace: ns, Name: "web", Selector: map[string]string{"app": "ask"}, Port: 80})
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
	if s := state(); s.Node != "" || s.Running || s.Waiting != "no Node takes it: no scheduler has looked at it yet" {
		p.t.Errorf("new: %+v", s)
	}
	pods := p.admin.CoreV1().Pods(ns)
	p.must(pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "ask", Namespace: ns}, Target: corev1.ObjectReference{Kind: "Node", Name: testNode}}, metav1.CreateOptions{}))
	report := func(phase corev1.PodPhase, ready corev1.ConditionStatus, boxes ...corev1.ContainerStatus) {
		p.t.Helper()
		p.until(10*time.Second, "the status is written", func(ctx context.Context) error {
			pod, err := pods.Get(ctx, "ask", metav1.GetOptions{})
			if err != nil {
				return err
			}
			pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs, pod.Status.ContainerStatuses = phase, "10.244.0.9", []corev1.PodIP{{IP: "10.244.0.9"}}, boxes
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
			_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			return err
		})
	}
	box := func(name string, s corev1.ContainerState, last *corev1.ContainerStateTerminated, restarts int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Image: "example/web", State: s, LastTerminationState: corev1.ContainerState{Terminated: last}, RestartCount: restarts}
	}
	creating := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	report(corev1.PodPending, corev1.ConditionFalse, box("web", creating, nil, 0), box("one", creating, nil, 0), box("two", creating, nil, 0))
	_, err = p.admin.CoreV1().Events(ns).Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "ask.1", Namespace: ns}, Type: "Warning", Reason: "FailedCreatePodSandBox", Message: "no such image",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "ask"}, LastTimestamp: metav1.Now()}, metav1.CreateOptions{})
	p.must(err)
	if s := state(); s.Node != testNode || s.Running || s.Waiting != "ContainerCreating: FailedCreatePodSandBox: no such image" {
		p.t.Errorf("creating: %+v", s)
	}
	if on, err := a.Pods(ctx, testNode); err != nil || len(on) != 1 || on[0].Waiting != "ContainerCreating" || on[0].Created.IsZero() {
		p.t.Errorf("pods of the node: %+v, %v", on, err)
	}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	report(corev1.PodRunning, corev1.ConditionFalse, box("web", runs, nil, 0), box("one", ended(0), nil, 0),
		box("two", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}}, ended(7).Terminated, 2))
	s := state()
	if !s.Running || s.Ready || s.IP != "10.244.0.9" || s.Waiting != "" || len(s.Containers) != 3 || s.Containers[0].Done || !s.Containers[0].Up || s.Containers[1].Up || s.Containers[2].Up || !s.Containers[1].Done || s.Containers[2].Done ||
		!s.Containers[2].Failed || s.Containers[2].ExitCode != 7 || s.Containers[2].Tries != 2 || s.Containers[1].Failed {
		p.t.Errorf("running: %+v", s)
	}
	report(corev1.PodRunning, corev1.ConditionTrue, box("web", runs, nil, 0), box("one", ended(0), nil, 0), box("two", ended(0), ended(7).Terminated, 3))
	if s := state(); !s.Ready || !s.Containers[2].Done || s.Containers[2].Failed {
		p.t.Errorf("ready: %+v", s)
	}

	// No kubelet ends the pod, so that it goes only when it is not waited for.
	p.must(a.EndNamespace(ctx, ns))
	p.must(a.EndNamespace(ctx, ns)) // again is no error
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
	p.must(a.EndNamespace(ctx, ns)) // absent is no error
	p.must(a.EndPods(ctx, ns))

	// verify says what it waited for, and leaves nothing. The Node is Ready however long
	// it took to come here.
	p.until(10*time.Second, "the kubelet says again that it is ready", func(ctx context.Context) error {
		n, err := kubelet.CoreV1().Nodes().Get(ctx, testNode, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}
		_, err = kubelet.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
	r, err := verify.Run(ctx, verify.Options{API: a, Targets: []verify.Target{{Node: testNode}}, Image: func(string, string) (string, error) { return "example/web", nil }, DNSDomain: "cluster.local",
		Outside: func(context.Context, string) error { return errors.New("nobody asks") }, Start: 2 * time.Second, Answer: 20 * time.Second, Clean: time.Minute, Tell: quiet{}})
	p.must(err)
	for _, f := range r.Results {
		want := verify.NotPossible
		switch f.Flow {
		case "node":
			want = verify.Pass
		case "web-server":
			want = verify.Fail
			if !strings.Contains(f.Detail, "waited until the web server runs") || !strings.Contains(f.Detail, "no scheduler has looked at it yet") {
				p.t.Error(f.Detail)
			}
		}
		if f.Status != want {
			p.t.Errorf("%+v", f)
		}
	}
	if left, err := a.Namespaces(ctx, verify.Label); err != nil || len(left) > 0 || r.Remains != "" || len(r.Results) == 0 {
		p.t.Errorf("%+v; left %+v, %v", r, left, err)
	}
}

type quiet struct{}

func (quiet) Waits(node, flow, seen string) {}
func (quiet) Done(verify.Result)            {}
