package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// inOrder bounds the time that a node takes until it is in order again; the pull of an image is slower.
	inOrder = 10 * time.Minute
	podRuns = 20 * time.Minute
)

// ask joins the machine and writes the evidence. It fails where the machine did something otherwise.
func (j *join) ask(ctx context.Context) error {
	if j.see(ctx, "one apply makes it a Ready Node", 0, j.joins) {
		j.see(ctx, "it answers over SSH after its network has a switch", 3, j.answers)
		j.see(ctx, "a second apply changes nothing", 0, j.settles)
		if j.image != "" {
			j.see(ctx, "a pod runs, with an address of the Node's subnet", 0, j.podRuns)
		}
		if j.restartHNS != "" {
			j.see(ctx, "after a restart of HNS the node is in order again", 10, j.outlivesHNS)
		}
		if j.reboot != "" {
			j.see(ctx, "after a reboot it is a Ready Node again", 0, j.outlivesBoot)
		}
	}
	if slices.ContainsFunc(j.results, func(r result) bool { return r.Outcome != asExpected }) {
		fmt.Println(j.cluster.Logs())
		if _, _, err := j.nodejoin(ctx, "doctor"); err != nil {
			fmt.Println(err)
		}
	}
	j.see(ctx, "leave removes the Node", 0, j.leaves)
	return j.report(ctx)
}

func (j *join) see(ctx context.Context, name string, claim int, ask func(ctx context.Context) (string, error)) bool {
	began := time.Now()
	seen, err := ask(ctx)
	r := result{Area: "join", Name: name, Claim: claim, Outcome: asExpected, Seen: seen}
	if err != nil {
		r.Outcome, r.Seen = otherwise, strings.TrimPrefix(seen+"; "+err.Error(), "; ")
	}
	fmt.Printf("\n%s: %s, after %v: %s\n", r.Outcome, name, time.Since(began).Round(time.Second), r.Seen)
	j.results = append(j.results, r)
	return err == nil
}

func (j *join) joins(ctx context.Context) (string, error) {
	began := time.Now()
	if _, code, err := j.nodejoin(ctx, "apply", "--auto-approve"); err != nil || code != 0 {
		return "", errors.Join(err, fmt.Errorf("apply: exit code %d", code))
	}
	node, err := j.ready(ctx, time.Time{})
	if err != nil {
		return "", err
	}
	info := node.Status.NodeInfo
	return fmt.Sprintf("%s, %s, %s, subnet %s, after %v", info.OSImage, info.KubeletVersion,
		info.ContainerRuntimeVersion, node.Spec.PodCIDR, time.Since(began).Round(time.Second)), nil
}

// ready returns the Node, if it is Ready and its kubelet has renewed its Lease after since.
func (j *join) ready(ctx context.Context, since time.Time) (*corev1.Node, error) {
	node, err := j.cluster.Client.CoreV1().Nodes().Get(ctx, j.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) {
		return nil, fmt.Errorf("the Node is not Ready: %v", node.Status.Conditions)
	}
	lease, err := j.cluster.Client.CoordinationV1().Leases("kube-node-lease").Get(ctx, j.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Before(&metav1.MicroTime{Time: since}) {
		return nil, errors.New("its kubelet is silent")
	}
	return node, nil
}

// answers: the machine and the Node are as the plan says.
func (j *join) answers(ctx context.Context) (string, error) {
	out, code, err := j.nodejoin(ctx, "status", "--detailed-exitcode")
	if err == nil && code != 0 {
		err = fmt.Errorf("status: exit code %d", code)
	}
	return out, err
}

// settles: a plan after the apply has no changes.
func (j *join) settles(ctx context.Context) (string, error) {
	out, code, err := j.nodejoin(ctx, "plan", "--detailed-exitcode")
	if err == nil && code != 0 {
		err = fmt.Errorf("plan: exit code %d", code)
	}
	return out, err
}

func (j *join) podRuns(ctx context.Context) (string, error) {
	pods, none := j.cluster.Client.CoreV1().Pods("default"), false
	pod, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waits"}, Spec: corev1.PodSpec{
		NodeName: j.name, AutomountServiceAccountToken: &none,
		Containers: []corev1.Container{{Name: "waits", Image: j.image}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	err = until(ctx, podRuns, func(ctx context.Context) error {
		have, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod = have
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	node, err := j.ready(ctx, time.Time{})
	if err != nil {
		return "", err
	}
	subnet, err := netip.ParsePrefix(node.Spec.PodCIDR)
	if err != nil {
		return "", err
	}
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err == nil && !subnet.Contains(address) {
		err = fmt.Errorf("%s is not in the subnet %s", address, subnet)
	}
	return "address " + pod.Status.PodIP, err
}

// outlivesHNS: the guard of the node sees that HNS has lost what it had, and restores it, without another apply.
func (j *join) outlivesHNS(ctx context.Context) (string, error) {
	began := time.Now()
	if err := j.command(ctx, j.restartHNS); err != nil {
		return "", err
	}
	first, err := j.inOrder(ctx)
	took := time.Since(began).Round(time.Second)
	return fmt.Sprintf("in order after %v; right after the restart: %s", took, first), err
}

func (j *join) outlivesBoot(ctx context.Context) (string, error) {
	if err := j.command(ctx, j.reboot); err != nil {
		return "", err
	}
	back := time.Now()
	if err := until(ctx, inOrder, func(ctx context.Context) error {
		_, err := j.ready(ctx, back)
		return err
	}); err != nil {
		return "", err
	}
	first, err := j.inOrder(ctx)
	return fmt.Sprintf("in order %v after it answered; at first: %s", time.Since(back).Round(time.Second), first), err
}

// inOrder waits until status finds nothing, and returns what it found first.
func (j *join) inOrder(ctx context.Context) (first string, err error) {
	err = until(ctx, inOrder, func(ctx context.Context) error {
		out, err := j.answers(ctx)
		if first == "" {
			first = out
		}
		return err
	})
	return first, err
}

func (j *join) leaves(ctx context.Context) (string, error) {
	if _, code, err := j.nodejoin(ctx, "leave", "--all", "--auto-approve"); err != nil || code != 0 {
		return "", errors.Join(err, fmt.Errorf("leave: exit code %d", code))
	}
	_, err := j.cluster.Client.CoreV1().Nodes().Get(ctx, j.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return "", errors.Join(err, errors.New("the Node is still there"))
}
