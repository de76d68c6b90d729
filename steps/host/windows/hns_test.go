//go:build windows

package windows

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/Microsoft/hcsshim/hcn"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

func TestHNS(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	const name = "nodejoin-test-4096"
	_, err := h.HNSNetwork(ctx, name)
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("absent: %v", err)
	}
	if !underWine() {
		t.Skip("an overlay network interrupts the connections of a real machine for a while")
	}
	made := overlay(t, name)
	facts, err := h.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := host.HNSNetwork{ID: made.Id, Name: name, Type: "Overlay", ManagementIP: facts.ManagementIP,
		Subnets: []string{"10.244.0.0/16"}, VNI: 4096, Port: 4789}
	awaitAddress(t, h, name)
	for _, asked := range []string{name, "NODEJOIN-test-4096"} {
		have, err := h.HNSNetwork(ctx, asked)
		if diff := cmp.Diff(want, have); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	e, err := made.CreateEndpoint(&hcn.HostComputeEndpoint{Name: "nodejoin-test-endpoint",
		SchemaVersion:    hcn.V2SchemaVersion(),
		IpConfigurations: []hcn.IpConfig{{IpAddress: "10.244.3.7", PrefixLength: 24}}, MacAddress: "00-15-5D-00-00-07"})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := host.HNSEndpoint{ID: e.Id, Name: "nodejoin-test-endpoint", Network: made.Id,
		Addresses: []string{"10.244.3.7/24"}, MAC: "00-15-5D-00-00-07"}
	endpoints, err := h.HNSEndpoints(ctx)
	if i := slices.IndexFunc(endpoints, func(o host.HNSEndpoint) bool { return o.ID == e.Id }); err != nil || i < 0 {
		t.Errorf("the endpoint is not listed: %v, %+v", err, endpoints)
	} else if diff := cmp.Diff(endpoint, endpoints[i]); diff != "" {
		t.Error(diff)
	}
	wantLoadBalancer(ctx, t, h, e.Id)
	if err := e.Delete(); err != nil {
		t.Fatal(err)
	}
	// A deleted endpoint may be listed for a moment longer, and is not found when it is opened.
	if endpoints, err := h.HNSEndpoints(ctx); err != nil ||
		slices.ContainsFunc(endpoints, func(o host.HNSEndpoint) bool { return o.ID == e.Id }) {
		t.Errorf("endpoints after one was deleted: %v, %+v", err, endpoints)
	}
	if err := made.Delete(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.HNSNetwork(ctx, name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted: %v", err)
	}
}

// wantLoadBalancer: a load balancer over the endpoint, as kube-proxy makes one of a Service, is listed.
func wantLoadBalancer(ctx context.Context, t *testing.T, h host.Host, endpoint string) {
	t.Helper()
	b, err := hcn.AddLoadBalancer([]hcn.HostComputeEndpoint{{Id: endpoint}}, hcn.LoadBalancerFlagsNone,
		hcn.LoadBalancerPortMappingFlagsNone, "10.244.3.2", []string{"10.96.7.7"}, windows.IPPROTO_TCP, 8080, 80)
	if err != nil {
		t.Fatal(err)
	}
	want := host.HNSLoadBalancer{ID: b.Id, Addresses: []string{"10.96.7.7"}, Ports: []string{"tcp 80 to 8080"},
		Source: "10.244.3.2", Endpoints: []string{endpoint}}
	list, err := h.HNSLoadBalancers(ctx)
	if i := slices.IndexFunc(list, func(o host.HNSLoadBalancer) bool { return o.ID == b.Id }); err != nil || i < 0 {
		t.Errorf("the load balancer is not listed: %v, %+v", err, list)
	} else if diff := cmp.Diff(want, list[i]); diff != "" {
		t.Error(diff)
	}
	if err := b.Delete(); err != nil {
		t.Fatal(err)
	}
}

// TestDeleteHNSNetwork: an endpoint that vanishes during the listing does not stop the deletion.
func TestDeleteHNSNetwork(t *testing.T) {
	onlyStandIn(t)
	h, ctx := newHost(t), context30(t)
	made := overlay(t, "nodejoin-test-4097")
	for _, name := range []string{"a", "b"} {
		e, err := made.CreateEndpoint(&hcn.HostComputeEndpoint{Name: name, SchemaVersion: hcn.V2SchemaVersion()})
		if err != nil {
			t.Fatal(err)
		}
		if name == "b" {
			if err := e.Delete(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := h.DeleteHNSNetwork(ctx, made.Name); err != nil {
		t.Error(err)
	}
	if err := h.DeleteHNSNetwork(ctx, made.Name); err != nil {
		t.Errorf("once more: %v", err)
	}
	if endpoints, err := h.HNSEndpoints(ctx); err != nil || len(endpoints) > 0 {
		t.Errorf("left: %+v, %v", endpoints, err)
	}
}

// TestHNSNetworkAfterAnother: HNS refuses a network for a while after the last one was deleted, with an error that
// callers can wait out.
func TestHNSNetworkAfterAnother(t *testing.T) {
	onlyStandIn(t)
	h, ctx := newHost(t), context30(t)
	const name = "nodejoin-test-4098"
	t.Cleanup(func() {
		if err := h.DeleteHNSNetwork(context.WithoutCancel(ctx), name); err != nil {
			t.Error(err)
		}
	})
	if err := h.DeleteHNSNetwork(ctx, overlay(t, name).Name); err != nil {
		t.Fatal(err)
	}
	config := host.HNSNetworkConfig{Name: name, Type: "Overlay", Subnet: "10.244.0.0/24", Gateway: "10.244.0.1",
		VNI: 4098}
	err := h.CreateHNSNetwork(ctx, config)
	for errors.Is(err, host.ErrUnsettled) && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		err = h.CreateHNSNetwork(ctx, config)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestNoHNS: if the feature Containers is off, the interface of HNS is not registered.
func TestNoHNS(t *testing.T) {
	onlyStandIn(t)
	const installed = `C:\windows\hns-stand-in.port`
	if err := os.Rename(installed, installed+".off"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Rename(installed+".off", installed); err != nil {
			t.Error(err)
		}
	})
	h, ctx := newHost(t), context30(t)
	if _, err := h.HNSNetwork(ctx, "x"); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("network: %v", err)
	}
	if _, err := h.HNSNetworks(ctx); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("networks: %v", err)
	}
	if _, err := h.HNSEndpoints(ctx); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("endpoints: %v", err)
	}
}

// TestSilentHNS: a service that does not answer does not count as not installed.
func TestSilentHNS(t *testing.T) {
	onlyStandIn(t)
	const file = `C:\windows\hns-stand-in.port`
	port, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, port, 0o644); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(file, []byte("1"), 0o644); err != nil { // where nobody listens
		t.Fatal(err)
	}
	h, ctx := newHost(t), context30(t)
	_, read := h.HNSNetwork(ctx, "x")
	for call, err := range map[string]error{"read": read, "delete": h.DeleteHNSNetwork(ctx, "x"),
		"create": h.CreateHNSNetwork(ctx, host.HNSNetworkConfig{Name: "x", Type: "L2Bridge"})} {
		if !errors.Is(err, host.ErrNoAnswer) || errors.Is(err, host.ErrUnsupported) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// overlay creates a network as flanneld does for VXLAN.
func overlay(t *testing.T, name string) *hcn.HostComputeNetwork {
	t.Helper()
	setting := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	n := &hcn.HostComputeNetwork{
		Type: hcn.Overlay, Name: name, Flags: hcn.EnableNonPersistent, SchemaVersion: hcn.V2SchemaVersion(),
		Policies: []hcn.NetworkPolicy{{Type: hcn.VxlanPort, Settings: setting(hcn.VxlanPortPolicySetting{Port: 4789})}},
		Ipams: []hcn.Ipam{{Type: "Static", Subnets: []hcn.Subnet{{
			IpAddressPrefix: "10.244.0.0/16",
			Policies: []json.RawMessage{setting(hcn.SubnetPolicy{Type: hcn.VSID,
				Settings: setting(hcn.VsidPolicySetting{IsolationId: 4096})})},
			Routes: []hcn.Route{{NextHop: "10.244.0.1", DestinationPrefix: "0.0.0.0/0"}},
		}}}},
	}
	made, err := n.Create()
	for ctx := context30(t); hcn.IsElementNotFoundError(err) && ctx.Err() == nil; made, err = n.Create() {
		time.Sleep(20 * time.Millisecond) // an earlier test may have just removed one
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// awaitAddress waits until a network has its management address, which the first one on an adapter gets late.
func awaitAddress(t *testing.T, h *Host, name string) {
	t.Helper()
	for ctx := context30(t); ; time.Sleep(20 * time.Millisecond) {
		if have, err := h.HNSNetwork(ctx, name); err != nil || have.ManagementIP != "" {
			return // the test says what is wrong
		}
	}
}
