package kinds

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// metadataRoutesPrefix is that of the claims. Their name is that of the HNS network.
const metadataRoutesPrefix record.Prefix = "metadata_routes"

// metadataNetworks hold the addresses at which clouds answer their machines: metadata, time, names and licences of
// AWS (169.254.169.123, .249 to .254), metadata of Azure and Google (169.254.169.254), and the host of Azure. The
// agents of the clouds add a route to each. A virtual switch swallows them with the adapter that it takes
// (microsoft/hcsshim#299, kubernetes-sigs/sig-windows-tools#36, ovn-kubernetes/ovn-kubernetes#3119).
var metadataNetworks = []netip.Prefix{
	netip.MustParsePrefix("169.254.169.0/24"), netip.MustParsePrefix("168.63.129.16/32"),
}

// notedRoutes are the routes to the cloud's metadata from before an HNS network was made.
type notedRoutes struct {
	Address string       `json:"address"` // of the adapter that the switch takes
	Routes  []host.Route `json:"routes"`
}

// metadataRoutes are the machine's routes to single addresses of metadataNetworks, over adapters that have an address.
func metadataRoutes(ctx context.Context, r host.NetworkReader) ([]host.Route, error) {
	all, err := r.Routes(ctx)
	if err != nil {
		if errors.Is(err, host.ErrUnsupported) {
			err = nil
		}
		return nil, err
	}
	adapters, err := r.Adapters(ctx)
	return slices.DeleteFunc(all, func(r host.Route) bool {
		to, err := netip.ParsePrefix(r.Destination)
		return err != nil || !to.IsSingleIP() ||
			!slices.ContainsFunc(metadataNetworks, func(n netip.Prefix) bool { return n.Contains(to.Addr()) }) ||
			!slices.ContainsFunc(adapters, func(a host.Adapter) bool { return a.Name == r.Interface })
	}), err
}

// lost are those to whose destination the machine has no route any more.
func (n notedRoutes) lost(ctx context.Context, r host.NetworkReader) ([]host.Route, error) {
	if len(n.Routes) == 0 {
		return nil, nil
	}
	have, err := metadataRoutes(ctx, r)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(n.Routes), func(noted host.Route) bool {
		return slices.ContainsFunc(have, func(r host.Route) bool { return r.Destination == noted.Destination })
	}), nil
}

// check is the change that restores what is lost.
func (n notedRoutes) check(ctx context.Context, r host.NetworkReader) (steps.Change, error) {
	lost, err := n.lost(ctx, r)
	if err != nil || len(lost) == 0 {
		return steps.Change{}, err
	}
	c := steps.Change{Action: steps.ActionUpdate, Reason: "restores the routes to the cloud's metadata"}
	for _, route := range lost {
		route.Interface = "" // it may have another name by then
		c.Diffs = append(c.Diffs, steps.Diff{Name: "route", Want: route.String()})
	}
	return c, nil
}

// restore adds the lost routes to the adapter that has the address now.
func (n notedRoutes) restore(ctx context.Context, h host.Host, e *steps.Env) error {
	lost, err := n.lost(ctx, h)
	if err != nil || len(lost) == 0 {
		return err
	}
	bound, cancel := context.WithTimeout(ctx, addressWait)
	defer cancel()
	adapter, err := awaitAdapterWith(bound, h, e, n.Address)
	for _, route := range lost {
		if err != nil {
			return err
		}
		route.Interface = adapter
		err = h.PutRoute(ctx, route)
	}
	return err
}

// undoMetadataRoutes restores the routes after the switch has gone, which swallows those on it.
func undoMetadataRoutes(_ record.Key, claim record.Claim) (steps.Undoing, error) {
	noted, err := record.Previous[notedRoutes](claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			c, err := noted.check(ctx, r)
			return c, "", err
		},
		Apply: noted.restore,
	}, err
}
