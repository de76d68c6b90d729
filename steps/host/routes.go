package host

import (
	"cmp"
	"slices"
)

// String is "10.244.1.0/24 via 192.0.2.2 dev eth0".
func (r Route) String() string {
	text := r.Destination
	if r.Gateway != "" {
		text += " via " + r.Gateway
	}
	if r.Interface != "" {
		text += " dev " + r.Interface
	}
	return text
}

// SortRoutes puts routes into the order of Reader.Routes.
func SortRoutes(list []Route) []Route {
	slices.SortFunc(list, func(a, b Route) int {
		return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Metric, b.Metric),
			cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Gateway, b.Gateway))
	})
	return list
}

// SortEndpoints puts endpoints into the order of Reader.HNSEndpoints.
func SortEndpoints(list []HNSEndpoint) []HNSEndpoint {
	slices.SortFunc(list, func(a, b HNSEndpoint) int {
		return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// SortLoadBalancers puts load balancers into the order of Reader.HNSLoadBalancers.
func SortLoadBalancers(list []HNSLoadBalancer) []HNSLoadBalancer {
	slices.SortFunc(list, func(a, b HNSLoadBalancer) int {
		return cmp.Or(slices.Compare(a.Addresses, b.Addresses), slices.Compare(a.Ports, b.Ports), cmp.Compare(a.ID, b.ID))
	})
	return list
}
