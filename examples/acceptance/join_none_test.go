package acceptance_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
)

var flannelPlan = regexp.MustCompile(
	`(?s)network "flannel" \{.*?\n\}|artifact "(cni_plugins|flannel_cni|flanneld)" \{.*?\}\n`)

// planWithout returns the example plan with another network block instead of flannel, for a cluster with both
// families. address is the node's IPv6 address.
func planWithout(t *testing.T, block, address string) string {
	t.Helper()
	dir := planWith(t, `"10.244.0.0/16"`, fmt.Sprintf("%q", controlplane.PodCIDR+","+controlplane.PodCIDR6),
		`"10.96.0.0/12"`, fmt.Sprintf("%q", controlplane.ServiceCIDR+","+controlplane.ServiceCIDR6),
		`profile  = profile.windows`, fmt.Sprintf("profile  = profile.windows\n  management_ip  = %q\n"+
			"  management_ip6 = %q", nodeIP(t), address),
		"    config = { ", "    config = { serverTLSBootstrap = true, ")
	file := filepath.Join(dir, "plan.join.hcl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(flannelPlan.FindAll(text, -1)); n != 4 {
		t.Fatalf("%s has %d flannel blocks, want 4", examplePlan, n)
	}
	text = append(flannelPlan.ReplaceAll(text, nil), "\n"+block+"\n"...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestJoinWithoutNetwork: the cluster brings its pod network itself, with pods and services of both families.
// The node joins and is not Ready until the CNI is installed. nodejoin does not count this as a failure; a plan
// can ask it to wait. The kubelet reports the addresses of both families, and gets a certificate for both.
func TestJoinWithoutNetwork(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startClusterWith(ctx, t, controlplane.Options{DualStack: true}))
	const address = "fd00:10:1::2"
	if err := b.addAddress(address); err != nil {
		t.Fatal(err)
	}
	args := b.variables(b.host.Port()).with(t, planWithout(t, `network "none" {}`, address))

	first := mustApply(ctx, t, args)
	t.Logf("joined after %.1fs", first.took.Seconds())
	b.wantWaiting(ctx)
	b.wantAddresses(ctx, address)
	wantNothing(ctx, t, args)
	if out, code := released(t).status(ctx, t, args); code != 0 || !strings.Contains(out, "in sync") {
		t.Errorf("status of a node that waits for its CNI: exit code %d:\n%s", code, out)
	}

	args[2] = planWithout(t, `network "none" { ready = true }`, address)
	said := ""
	r := apply(ctx, t, args, func(e streamEvent, _ *os.Process) {
		if e.Step == "node_ready" && e.Note != "" && said == "" {
			said = e.Note
			b.putCNI()
		}
	})
	if r.code != 0 || !strings.Contains(said, "cni") {
		t.Fatalf("the run said %q about the waiting Node, want what the kubelet says about the CNI: %s", said, r)
	}
	node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.wantNode(node)
	wantNothing(ctx, t, args)

	if left := released(t).run(ctx, t, "leave", append([]string{"--target", nodeName}, args...), nil); left.code != 0 {
		t.Errorf("leave: %s", left)
	}
}

// wantWaiting: the Node exists with the plan's labels and taints, accepts pods, and is not Ready because there
// is no CNI.
func (b *bed) wantWaiting(ctx context.Context) {
	b.t.Helper()
	node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 || node.Status.Conditions[i].Status != corev1.ConditionFalse ||
		!strings.Contains(node.Status.Conditions[i].Message, "cni") {
		b.t.Errorf("want a Node that is not Ready because of its CNI: %+v", node.Status.Conditions)
	}
	if node.Labels["example.com/pool"] != "windows" || node.Spec.Unschedulable {
		b.t.Errorf("labels %v, unschedulable %v", node.Labels, node.Spec.Unschedulable)
	}
}

// wantAddresses: the Node has its IPv4 address first and then its IPv6 address, and a subnet of both pod
// networks. The kubelet's serving certificate is for both addresses.
func (b *bed) wantAddresses(ctx context.Context, address6 string) {
	b.t.Helper()
	node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	ip := nodeIP(b.t)
	var have []string
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			have = append(have, a.Address)
		}
	}
	if want := []string{ip, address6}; !slices.Equal(have, want) || len(node.Spec.PodCIDRs) != 2 {
		b.t.Errorf("the Node has the addresses %v and the pod networks %v, want %v and one of each family", have,
			node.Spec.PodCIDRs, want)
	}
	block, _ := pem.Decode(b.read(`C:\var\lib\kubelet\pki\kubelet-server-current.pem`))
	if block == nil {
		b.t.Fatal("the kubelet has no serving certificate")
	}
	served, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := errors.Join(served.VerifyHostname(ip), served.VerifyHostname(address6)); err != nil {
		b.t.Errorf("the serving certificate of the kubelet: %v", err)
	}
}

// putCNI installs a CNI configuration, as the pods of a CNI do on a node.
func (b *bed) putCNI() {
	b.t.Helper()
	text, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "name": "cluster",
		"plugins": []any{map[string]any{"type": "cluster-cni"}}})
	if err != nil {
		b.t.Fatal(err)
	}
	file := b.host.Path(`C:\etc\cni\net.d\10-cluster.conflist`)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
