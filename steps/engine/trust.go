package engine

import (
	"net/netip"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// distrusting gives the steps of a node that make others trust it no value that the machine said of itself.
func distrusting(specs []steps.Spec) []steps.Spec {
	trusts := func(s steps.Spec) bool {
		k, _ := kinds.Lookup(s.Kind)
		return k.Trusts
	}
	if !slices.ContainsFunc(specs, trusts) {
		return specs
	}
	said := func(id string) bool {
		i := slices.IndexFunc(specs, func(s steps.Spec) bool { return s.ID == id })
		if i < 0 {
			return false
		}
		k, _ := kinds.Lookup(specs[i].Kind)
		return k.Place == steps.OnHost
	}
	out := slices.Clone(specs)
	for i, s := range out {
		if !trusts(s) {
			continue
		}
		if d, err := steps.Distrust(s, said); err == nil {
			out[i] = d
		}
	}
	return out
}

// reached is the machine's address by the connection, unless it cannot be that of a machine of the cluster.
func (h *hostRun) reached(f host.Facts) string {
	text := h.conn.Address(f)
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	if k := h.plan.Cluster; k != nil {
		for cidr := range strings.SplitSeq(k.PodCIDR, ",") {
			if p, err := netip.ParsePrefix(cidr); err == nil && p.Contains(ip) {
				return ""
			}
		}
	}
	return text
}
