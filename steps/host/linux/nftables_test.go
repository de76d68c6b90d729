//go:build linux

package linux

import (
	"slices"
	"testing"

	"nodejoin/steps/host"
)

// nft prints its tables among other objects. Output that is not JSON is an error.
func TestNftTables(t *testing.T) {
	const text = `{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
 {"table": {"family": "ip", "name": "kube-proxy", "handle": 2}},
 {"table": {"family": "ip6", "name": "kube-proxy", "handle": 3}}]}`
	have, err := nftTables(text)
	if want := []host.FilterTable{{Family: "ip", Name: "kube-proxy"}, {Family: "ip6", Name: "kube-proxy"}}; err != nil ||
		!slices.Equal(have, want) {
		t.Errorf("%v, %v", have, err)
	}
	if have, err := nftTables("table ip kube-proxy"); err == nil {
		t.Errorf("taken for %v", have)
	}
}

// In a separate network namespace, nft and the kernel remove the named tables and routes
// and nothing else.
func TestTablesAndRoutes(t *testing.T) { inOwnNetwork(t, nft, tablesAndRoutes) }

func tablesAndRoutes(t *testing.T) {
	h := &Host{}
	if !runLines(t,
		"nft add table ip kube-proxy", "nft add chain ip kube-proxy services", "nft add table ip6 kube-proxy",
		"nft add table inet kube-proxy",
		"ip link add wire type bridge", "ip link set wire up", "ip addr add 192.0.2.1/24 dev wire",
		"ip addr add 2001:db8::1/64 dev wire nodad",
		"ip route add 10.244.1.0/24 via 192.0.2.2", "ip route add 10.244.2.0/24 via 192.0.2.3",
		"ip route add 10.244.2.0/24 via 192.0.2.3 metric 50",
		"ip route add 10.244.3.0/24 nexthop via 192.0.2.2 nexthop via 192.0.2.3",
		"ip route add 2001:db8:1::/64 via 2001:db8::2",
	) {
		return
	}
	via := func(destination, gateway string) host.Route {
		return host.Route{Destination: destination, Gateway: gateway, Interface: "wire"}
	}
	v6 := via("2001:db8:1::/64", "2001:db8::2")
	v6.Metric = 1024 // the default of Linux
	slow := via("10.244.2.0/24", "192.0.2.3")
	slow.Metric = 50
	want := func(tables []host.FilterTable, routes ...host.Route) {
		t.Helper()
		if have, err := h.FilterTables(t.Context()); err != nil || !slices.Equal(have, tables) {
			t.Errorf("tables %v, %v, want %v", have, err, tables)
		}
		have, err := h.Routes(t.Context())
		have = slices.DeleteFunc(have, func(r host.Route) bool { return r.Gateway == "" })
		if err != nil || !slices.Equal(have, routes) {
			t.Errorf("routes %v, %v, want %v", have, err, routes)
		}
	}
	theirs := host.FilterTable{Family: "inet", Name: "kube-proxy"}
	ours := []host.FilterTable{{Family: "ip", Name: "kube-proxy"}, {Family: "ip6", Name: "kube-proxy"}}
	ways := []host.Route{via("10.244.1.0/24", "192.0.2.2"), via("10.244.2.0/24", "192.0.2.3"), slow,
		via("10.244.3.0/24", "192.0.2.2"), via("10.244.3.0/24", "192.0.2.3"), v6}
	want(append(slices.Clone(ours), theirs), ways...)
	for range 2 { // a second time is not an error; only one of the two next hops is not ours
		if err := h.DeleteFilterTables(t.Context(), ours); err != nil {
			t.Error(err)
		}
		if err := h.DeleteRoutes(t.Context(), []host.Route{ways[0], ways[1], ways[3], v6}); err != nil {
			t.Error(err)
		}
		want([]host.FilterTable{theirs}, slow, ways[3], ways[4])
	}
	if err := h.DeleteRoutes(t.Context(), ways[3:5]); err != nil {
		t.Error(err)
	}
	want([]host.FilterTable{theirs}, slow)
}
