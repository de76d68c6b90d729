package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nodejoin/steps/kube"
)

// TestFleet: an API server takes the objects of a fleet, Pod Security admits its pods as restricted ones, and its
// ServiceAccount may do what a run does, and no more.
func TestFleet(t *testing.T) {
	p := startControlPlane(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	text, err := os.ReadFile(filepath.Join("..", "..", "cmd", "nodejoin", "internal", "fleet", "testdata", "fleet.yaml"))
	p.must(err)
	objects, err := kube.ParseManifests(string(text))
	p.must(err)
	jobs, err := OpenJobs(ctx, Config{Kubeconfig: p.kubeconfig, CAHash: spkiHash(p.ca)})
	p.must(err)
	for _, m := range objects {
		if m.Kind == "Namespace" {
			p.must(jobs.ApplyManifest(ctx, m))
		}
	}
	for _, m := range objects {
		if err := jobs.DryRun(ctx, m); err != nil {
			t.Errorf("dry run: %v", err)
		}
	}
	for _, m := range objects {
		p.must(jobs.ApplyManifest(ctx, m))
	}
	p.fleetPod(ctx, jobs)
	p.fleetRights(ctx)
	for _, command := range []string{"doctor", "leave", "verify", "older", "older-leave"} {
		text, err := os.ReadFile(filepath.Join(filepath.FromSlash("../../cmd/nodejoin/internal/fleet/testdata"),
			command+".yaml"))
		p.must(err)
		objects, err := kube.ParseManifests(string(text))
		p.must(err)
		for _, m := range objects {
			p.must(jobs.ApplyManifest(ctx, m))
		}
	}
	p.commandRights(ctx)
	p.olderRights(ctx)
}

// fleetToken is a token of an account of a fleet, and a kubeconfig with it.
func (p *controlPlane) fleetToken(ctx context.Context, name string) (token, kubeconfig string) {
	t, err := p.admin.CoreV1().ServiceAccounts("fleets").CreateToken(ctx, name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	p.must(err)
	return t.Status.Token, p.writeKubeconfig(name, &clientcmdapi.AuthInfo{Token: t.Status.Token})
}

// fleetAccount opens the API server as an account of a fleet.
func (p *controlPlane) fleetAccount(ctx context.Context, name string) (kube.API, kubernetes.Interface) {
	token, kubeconfig := p.fleetToken(ctx, name)
	a, err := Open(ctx, Config{Kubeconfig: kubeconfig})
	p.must(err)
	return a, p.as(rest.Config{BearerToken: token})
}

// olderRights joins a Node of an API server that says it is 1.30 as the ServiceAccount of a fleet, and leaves as that
// of another: the Node has accounts and roles of its own there, and each run may touch those of its own Nodes only.
func (p *controlPlane) olderRights(ctx context.Context) {
	const node, other = "win-0", "elsewhere"
	older := func(name string) kube.API {
		_, kubeconfig := p.fleetToken(ctx, name)
		a, err := Open(ctx, Config{Kubeconfig: p.saying("v1.30.4", kubeconfig)})
		p.must(err)
		return a
	}
	apply, leave := older("older"), older("older-leave")
	admin, err := Open(ctx, Config{Kubeconfig: p.saying("v1.30.4", p.kubeconfig)})
	p.must(err)
	p.nodes(ctx, node, other)
	own := func(node string) kube.ServiceAccount {
		return kube.ServiceAccount{Namespace: "kube-system", Name: "nodejoin-flannel", ClusterRole: "nodejoin:flannel",
			Rules: []kube.Rule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}},
			OwnNode: true, Node: node}
	}
	tokenOf := func(a kube.API, node string) error {
		have, err := a.Node(ctx, node)
		p.must(err)
		token, _, err := a.ServiceAccountToken(ctx, kube.TokenRequest{Namespace: "kube-system", Name: "nodejoin-flannel",
			TTL: time.Hour, Node: node, UID: have.UID})
		want := "kube-system/" + kube.AccountOf("nodejoin-flannel", node)
		if t, _ := kube.ParseToken(token); err == nil && t.Account != want {
			p.t.Errorf("the token of %s is of %s", node, t.Account)
		}
		return err
	}
	p.must(apply.EnsureServiceAccount(ctx, own(node)))
	p.must(tokenOf(apply, node))
	p.must(tokenOf(apply, node)) // the Secret that it is bound to exists
	firstBoot := kube.FirstBoot(node)
	firstBoot.Rules = own(node).Rules[:1]
	p.must(admin.EnsureServiceAccount(ctx, firstBoot))
	p.must(leave.EndTokens(ctx, node))
	for _, left := range p.ofTestNode(ctx) {
		if strings.Contains(left, node) || strings.Contains(left, "nodejoin-token-") {
			p.t.Errorf("after the leave: %s", left)
		}
	}
	p.must(admin.EnsureServiceAccount(ctx, own(other)))
	p.must(tokenOf(admin, other))
	for what, err := range map[string]error{
		"a token of another Node":         tokenOf(apply, other),
		"the accounts of another Node":    leave.EndTokens(ctx, other),
		"an account, as one that applies": apply.EndTokens(ctx, other),
	} {
		if !errors.Is(err, kube.ErrForbidden) {
			p.t.Errorf("%s: %v", what, err)
		}
	}
}

// commandRights makes the calls of other commands than apply as their ServiceAccounts. One that only reads may write
// nothing.
func (p *controlPlane) commandRights(ctx context.Context) {
	const own, node = "nodejoin-verify-a", "fleet-1"
	p.nodes(ctx, node)
	doctor, doctorRaw := p.fleetAccount(ctx, "doctor")
	leave, leaveRaw := p.fleetAccount(ctx, "leave")
	verify, _ := p.fleetAccount(ctx, "verify")
	lease := kube.Lease{Name: "nodejoin-prod", Holder: "run", Duration: time.Minute, Renewed: time.Now()}
	have, err := leave.Node(ctx, node)
	p.must(err)
	for _, c := range []struct {
		what string
		call func() error
	}{
		{"doctor: Node", func() error { _, err := doctor.Node(ctx, node); return err }},
		{"doctor: Pods", func() error { _, err := doctor.Pods(ctx, node); return err }},
		{"doctor: Services", func() error { _, err := doctor.Services(ctx); return err }},
		{"doctor: DaemonSets", func() error { _, err := doctor.DaemonSets(ctx, have); return err }},
		{"verify: a namespace", func() error { return verify.MakeNamespace(ctx, kube.Namespace{Name: own}) }},
		{"verify: Namespaces", func() error { _, err := verify.Namespaces(ctx, "a"); return err }},
		{"verify: a pod", func() error {
			return verify.RunPod(ctx, kube.PodSpec{Namespace: own, Name: "a", OS: "linux",
				Containers: []kube.Container{{Name: "a", Image: "a"}}})
		}},
		{"verify: its state", func() error { _, err := verify.PodState(ctx, own, "a"); return err }},
		{"verify: a log", func() error { return second(verify.PodLog(ctx, own, "a")) }},
		{"verify: exec", func() error { return unscheduled(second(verify.Exec(ctx, own, "a", []string{"a"}))) }},
		{"verify: a forwarded port", func() error { return unscheduled(verify.Forward(ctx, own, "a", 80)) }},
		{"verify: metrics of a kubelet", func() error { return unscheduled(second(verify.NodeMetrics(ctx, node))) }},
		{"verify: the end", func() error { return errors.Join(verify.EndPods(ctx, own), verify.EndNamespace(ctx, own)) }},
		{"leave: Lease", func() error {
			_, err := leave.TakeLease(ctx, lease, "")
			return errors.Join(err, leave.ReleaseLease(ctx, lease.Name, "run"))
		}},
		{"leave: Cordon", func() error { return leave.Cordon(ctx, node, "leave") }},
		{"leave: Pods", func() error { _, err := leave.Pods(ctx, node); return err }},
		{"leave: tokens", func() error {
			_, err := leave.BootstrapTokens(ctx, node)
			return errors.Join(err, leave.RevokeToken(ctx, "abcdef"), leave.EndTokens(ctx, node))
		}},
		{"leave: DeleteNode", func() error { return leave.DeleteNode(ctx, node, have.UID) }},
	} {
		if err := c.call(); err != nil {
			p.t.Errorf("%s: %v", c.what, err)
		}
	}
	for what, err := range map[string]error{
		"doctor: Cordon":      doctor.Cordon(ctx, testNode, "x"),
		"doctor: a namespace": doctor.MakeNamespace(ctx, kube.Namespace{Name: "x"}),
		"doctor: Lease":       second(doctor.TakeLease(ctx, lease, "")),
		"doctor: a log":       second(doctor.PodLog(ctx, "fleets", "prod-0-abcde")),
		"doctor: exec":        second(doctor.Exec(ctx, "fleets", "prod-0-abcde", []string{"a"})),
		"doctor: forward":     doctor.Forward(ctx, "fleets", "prod-0-abcde", 80),
		"doctor: metrics":     second(doctor.NodeMetrics(ctx, testNode)),
		"verify: Cordon":      verify.Cordon(ctx, testNode, "x"),
		"leave: a namespace":  leave.MakeNamespace(ctx, kube.Namespace{Name: "x"}),
	} {
		if !errors.Is(err, kube.ErrForbidden) {
			p.t.Errorf("%s: %v", what, err)
		}
	}
	for what, raw := range map[string]kubernetes.Interface{"doctor": doctorRaw, "leave": leaveRaw} {
		_, err := raw.CoreV1().Pods("fleets").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
			metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			p.t.Errorf("%s creates a pod: %v", what, err)
		}
	}
}

// fleetPod creates a pod as the Job controller would.
func (p *controlPlane) fleetPod(ctx context.Context, jobs *Jobs) {
	job, err := jobs.Get(ctx, kube.Manifest{APIVersion: "batch/v1", Kind: "Job", Namespace: "fleets", Name: "prod"})
	p.must(err)
	spec, _ := job["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	raw, err := json.Marshal(template["spec"])
	p.must(err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "prod-0-abcde", Namespace: "fleets"}}
	p.must(json.Unmarshal(raw, &pod.Spec))
	_, err = p.admin.CoreV1().Pods("fleets").Create(ctx, pod, metav1.CreateOptions{})
	p.must(err)
	pods, err := jobs.List(ctx, kube.Manifest{APIVersion: "v1", Kind: "Pod", Namespace: "fleets"}, "")
	if err != nil || len(pods) != 1 {
		p.t.Errorf("pods: %d, %v", len(pods), err)
	}
	unconfined := pod.DeepCopy()
	unconfined.Name, unconfined.Spec.SecurityContext.SeccompProfile = "other", nil
	if _, err := p.admin.CoreV1().Pods("fleets").Create(ctx, unconfined, metav1.CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		p.t.Errorf("a pod without seccomp: %v", err)
	}
}

// fleetRights makes the calls of a run as the ServiceAccount of the fleet.
func (p *controlPlane) fleetRights(ctx context.Context) {
	token, kubeconfig := p.fleetToken(ctx, "prod")
	conf := Config{Kubeconfig: kubeconfig}
	a, err := Open(ctx, conf)
	p.must(err)
	jobs, err := OpenJobs(ctx, conf)
	p.must(err)
	p.nodes(ctx, testNode)
	flannel := kube.ServiceAccount{Namespace: "kube-system", Name: "nodejoin-flannel", ClusterRole: "nodejoin:flannel",
		Rules: []kube.Rule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}},
		OwnNode: true, Node: testNode}
	lease := kube.Lease{Name: "nodejoin-prod", Holder: "run", Duration: time.Minute, Renewed: time.Now()}
	settings, err := kube.ParseManifests("apiVersion: v1\nkind: ConfigMap\n" +
		"metadata: {name: settings, namespace: default}\n")
	p.must(err)
	set := kube.ApplySet{Plan: "prod"}
	result, err := kube.ParseManifests("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: prod-1, namespace: fleets}\n")
	p.must(err)
	result[0].Force = true
	event, err := kube.ParseManifests("apiVersion: v1\nkind: Event\nmetadata: {name: prod-1.a, namespace: fleets}\n" +
		"type: Normal\nreason: ShardDone\nmessage: x\n" +
		"involvedObject: {apiVersion: batch/v1, kind: Job, namespace: fleets, name: prod}\n")
	p.must(err)
	var minted kube.BootstrapToken
	for what, call := range map[string]func() error{
		"Info":      func() error { _, err := a.Info(ctx); return err },
		"Node":      func() error { _, err := a.Node(ctx, testNode); return err },
		"Nodes":     func() error { _, err := a.Nodes(ctx); return err },
		"Pods":      func() error { _, err := a.Pods(ctx, testNode); return err },
		"SetLabels": func() error { return a.SetLabels(ctx, testNode, map[string]string{"a": "b"}, nil) },
		"SetTaints": func() error { return a.SetTaints(ctx, testNode, []kube.Taint{kube.Joining}, nil) },
		"Cordon":    func() error { return errors.Join(a.Cordon(ctx, testNode, "upgrade"), a.Uncordon(ctx, testNode)) },
		"tokens": func() (err error) {
			if minted, err = a.MintToken(ctx, testNode, time.Hour); err != nil {
				return err
			}
			if _, err := a.BootstrapTokens(ctx, testNode); err != nil {
				return err
			}
			return a.RevokeToken(ctx, minted.ID)
		},
		"SigningRequests": func() error { _, err := a.SigningRequests(ctx, testNode); return err },
		"an account of nodes, and a token of it": func() error {
			node, err := a.Node(ctx, testNode)
			if err := errors.Join(err, a.EnsureServiceAccount(ctx, flannel)); err != nil {
				return err
			}
			_, _, err = a.ServiceAccountToken(ctx, kube.TokenRequest{Namespace: flannel.Namespace, Name: flannel.Name,
				TTL: time.Hour, Node: testNode, UID: node.UID})
			return err
		},
		"kube-proxy's account": func() error {
			return a.EnsureServiceAccount(ctx, kube.ServiceAccount{Namespace: "kube-system", Name: "nodejoin-kube-proxy",
				ClusterRole: "system:node-proxier"})
		},
		"Lease": func() error {
			_, err := a.TakeLease(ctx, lease, "")
			list, listErr := a.Leases(ctx, "nodejoin-pr")
			if len(list) != 1 || list[0].Name != lease.Name || !list[0].Live(time.Now()) {
				p.t.Errorf("Leases: %+v", list)
			}
			return errors.Join(err, listErr, a.ReleaseLease(ctx, lease.Name, "run"))
		},
		"a manifest of the plan": func() error {
			_, err := a.Manifest(ctx, settings[0])
			return errors.Join(err, a.ApplyManifest(ctx, settings[0]))
		},
		"ApplySet": func() error {
			return a.ApplyManifest(ctx, set.Parent("dev", []string{"ConfigMap"}, []string{"default"}))
		},
		"the result of a shard": func() error { return jobs.ApplyManifest(ctx, result[0]) },
		"an event of a shard":   func() error { return jobs.ApplyManifest(ctx, event[0]) },
	} {
		if err := call(); err != nil {
			p.t.Errorf("%s: %v", what, err)
		}
	}
	own := p.as(rest.Config{BearerToken: token})
	for what, err := range map[string]error{
		"reading Secrets of kube-system": second(own.CoreV1().Secrets("kube-system").Get(ctx, "x", metav1.GetOptions{})),
		"reading its keys":               second(own.CoreV1().Secrets("fleets").Get(ctx, "prod-ssh", metav1.GetOptions{})),
		"listing Secrets elsewhere":      second(own.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})),
		"deleting Nodes":                 own.CoreV1().Nodes().Delete(ctx, testNode, metav1.DeleteOptions{}),
		"creating pods": second(own.CoreV1().Pods("fleets").Create(ctx,
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})),
		"another token": second(own.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "default",
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})),
		"changing an existing role": second(own.RbacV1().ClusterRoles().Patch(ctx, "cluster-admin",
			"application/merge-patch+json", []byte(`{"rules":[]}`), metav1.PatchOptions{})),
	} {
		if !errors.Is(jobs.fail(ctx, what, err), kube.ErrForbidden) {
			p.t.Errorf("%s: %v", what, err)
		}
	}
}

// unscheduled is nil for the error of a call that the API server allowed, and could not pass on to a kubelet: the
// Nodes of the test have none.
func unscheduled(err error) error {
	switch {
	case err == nil:
		return errors.New("a kubelet has answered, and there is none")
	case errors.Is(err, kube.ErrForbidden) || strings.Contains(strings.ToLower(err.Error()), "forbidden"):
		return err
	}
	return nil
}

func second[T any](_ T, err error) error { return err }
