package sandbox

import (
	"context"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/kube"
)

// NodeEvents returns nothing: nothing in the sandbox creates events.
func (k *Cluster) NodeEvents(ctx context.Context, node string) ([]kube.NodeEvent, error) {
	return nil, k.ask(ctx, "list events of", node, func(*clusterState) error { return nil })
}

// TakeLease takes or renews a Lease.
func (k *Cluster) TakeLease(ctx context.Context, want kube.Lease, from string) (kube.Lease, error) {
	var before kube.Lease
	err := k.tell(ctx, "take lease", want.Name, func(s *clusterState) error {
		have, _ := s.Leases.get(want.Name)
		if have.Holder != want.Holder {
			before = have
		}
		if have.Taken(want, from, time.Now()) {
			return kube.ErrHeld
		}
		s.Leases.set(want.Name, want)
		return nil
	})
	return before, err
}

// Leases lists the Leases whose names begin with prefix.
func (k *Cluster) Leases(ctx context.Context, prefix string) (out []kube.Lease, err error) {
	err = k.ask(ctx, "list leases", prefix, func(s *clusterState) error {
		for name, l := range s.Leases.all() {
			if strings.HasPrefix(name, prefix) {
				out = append(out, l)
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b kube.Lease) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// ReleaseLease deletes a Lease that this holder has.
func (k *Cluster) ReleaseLease(ctx context.Context, name, holder string) error {
	return k.tell(ctx, "release lease", name, func(s *clusterState) error {
		if have, _ := s.Leases.get(name); have.Holder == holder {
			s.Leases.remove(name)
		}
		return nil
	})
}
