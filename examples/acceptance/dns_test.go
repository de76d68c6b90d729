package acceptance_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// outsideName is a name outside of the cluster.
const outsideName = "outside.example"

// startDNS resolves the names of services, as CoreDNS does, at an address of this machine, and creates the
// service kube-dns for it. outsideName is that address.
func startDNS(ctx context.Context, t *testing.T, c *controlplane.Cluster, address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		packet := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return // closed
			}
			if answer := answerDNS(ctx, c, packet[:n], net.ParseIP(address)); answer != nil {
				_, _ = conn.WriteTo(answer, from) // the client retries
			}
		}
	}()
	protocol, name, port := corev1.ProtocolUDP, "dns", int32(conn.LocalAddr().(*net.UDPAddr).Port)
	if _, err := c.Client.CoreV1().Services("kube-system").Create(ctx,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kube-dns"},
			Spec: corev1.ServiceSpec{ClusterIP: controlplane.DNSIP,
				Ports: []corev1.ServicePort{{Name: name, Port: 53, Protocol: protocol}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.DiscoveryV1().EndpointSlices("kube-system").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// answerDNS answers a question for a name below svc.cluster.local, or for outsideName, which is at outside. It returns
// nil if the packet is not a question.
func answerDNS(ctx context.Context, c *controlplane.Cluster, packet []byte, outside net.IP) []byte {
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionDesired: m.RecursionDesired,
		RecursionAvailable: true, RCode: dnsmessage.RCodeNameError}
	m.Additionals = nil
	var ip net.IP
	if name, ok := strings.CutSuffix(q.Name.String(), ".svc.cluster.local."); ok {
		ip = addressOf(ctx, c, strings.Split(name, "."))
	} else if q.Name.String() == outsideName+"." {
		ip = outside.To4()
	}
	if ip != nil {
		m.RCode = dnsmessage.RCodeSuccess
		if q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type,
				Class: q.Class, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte(ip)}}}
		}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

// addressOf returns the address of SERVICE.NAMESPACE, or of the pod HOSTNAME.SERVICE.NAMESPACE that an EndpointSlice
// has with this hostname, as CoreDNS looks for it; nil if there is none.
func addressOf(ctx context.Context, c *controlplane.Cluster, name []string) net.IP {
	switch len(name) {
	case 2:
		s, err := c.Client.CoreV1().Services(name[1]).Get(ctx, name[0], metav1.GetOptions{})
		if err == nil {
			return net.ParseIP(s.Spec.ClusterIP).To4()
		}
	case 3:
		list, err := c.Client.DiscoveryV1().EndpointSlices(name[2]).List(ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name[1]})
		if err != nil {
			return nil
		}
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				if e.Hostname != nil && *e.Hostname == name[0] {
					return net.ParseIP(e.Addresses[0]).To4()
				}
			}
		}
	}
	return nil
}
