package acceptance_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLinuxNodeHostGW: flannel's backend host-gw and kube-proxy in mode nftables. The route to the subnet of
// another node and the tables exist while the node is joined and are gone after a leave. Routes and tables of
// others stay.
func TestLinuxNodeHostGW(t *testing.T) {
	ctx, cancel := bounded(t, 6*time.Minute)
	defer cancel()
	b := newLinuxBed(ctx, t, false)
	other := b.linuxNeighbour(ctx)
	for _, argv := range []string{"ip route add 10.244.77.0/24 via " + b.machine.Gateway(),
		"nft add table inet kube-proxy"} {
		if _, err := b.machine.Run(ctx, strings.Fields(argv)...); err != nil {
			t.Fatal(err)
		}
	}
	before := b.snapshot()
	vxlan := "backend = \"vxlan\"\n  vni     = 4096\n  port    = 4789"
	head := strings.Replace(b.head(), vxlan, `backend = "host-gw"`, 1)
	host := strings.Replace(b.linuxHost(), "kube_proxy { config = { ", `kube_proxy { config = { mode = "nftables", `, 1)
	host = strings.Replace(host, "  profile = profile.linux\n", "  profile = profile.linux\n  interface = \"eth0\"\n", 1)
	if !strings.Contains(host, "eth0") {
		t.Fatalf("the plan has no adapter:\n%s", host)
	}
	args := writePlan(t, head, host)
	mustApply(ctx, t, args)
	for what, argv := range map[string]string{"ip/kube-proxy": "nft list table ip kube-proxy",
		"ip6/kube-proxy": "nft list table ip6 kube-proxy", other: "ip route show " + other} {
		until(ctx, t, what, func() error {
			out, err := b.machine.Run(ctx, strings.Fields(argv)...)
			if err == nil && out == "" {
				err = fmt.Errorf("%s prints nothing", argv)
			}
			return err
		})
	}
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)
	wantNothing(ctx, t, args)
	b.wantLeft(ctx, args, before)
}

// linuxNeighbour creates a Node that flanneld takes to be on the same network, and returns its subnet.
func (b *linuxBed) linuxNeighbour(ctx context.Context) (subnet string) {
	b.t.Helper()
	ip := strings.TrimSuffix(b.machine.IP(), "2") + "9"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: map[string]string{
		"flannel.alpha.coreos.com/backend-type":        "host-gw",
		"flannel.alpha.coreos.com/backend-data":        "null",
		"flannel.alpha.coreos.com/public-ip":           ip,
		"flannel.alpha.coreos.com/kube-subnet-manager": "true",
	}}}
	nodes := b.cluster.Client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	until(ctx, b.t, "a subnet of the Node other", func() error {
		have, err := nodes.Get(ctx, node.Name, metav1.GetOptions{})
		if err == nil && have.Spec.PodCIDR == "" {
			err = fmt.Errorf("it has no pod CIDR yet")
		} else if err == nil {
			subnet = have.Spec.PodCIDR
		}
		return err
	})
	return subnet
}
