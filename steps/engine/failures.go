package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/kube"
)

// failedFor is how long a failure counts for runs of other shards.
const failedFor = time.Hour

// failureFor is how long a failure counts for other runs.
func (s *Session) failureFor() time.Duration {
	if s.opt.FailureFor > 0 {
		return s.opt.FailureFor
	}
	return failedFor
}

// failures are the nodes of other shards that failed in runs of the group. self reports whether one of this run did,
// which counts its own.
func (s *Session) failures(list []kube.Lease) (names []string, self bool) {
	prefix := leaseName(s.planName()) + failedMark
	for _, l := range list {
		name, ok := strings.CutPrefix(l.Name, prefix)
		if !ok || l.Holder != s.group() || !l.Live(time.Now()) {
			continue
		}
		own := slices.ContainsFunc(s.hosts, func(h *hostRun) bool { return h.node.Name == name })
		if self = self || own; !own {
			names = append(names, name)
		}
	}
	return names, self
}

// group is whose failures count together: where no group is given, those over the same plan.
func (s *Session) group() string {
	if s.opt.Group != "" {
		return s.opt.Group
	}
	return "plan " + s.opt.PlanDigest
}

// noteFailure notes whether the run of a node has failed. An error is why others do not know that.
func (s *Session) noteFailure(ctx context.Context, node string, failed bool) error {
	l := kube.Lease{Name: leaseName(s.planName()) + failedMark + node, Holder: s.group(), Note: node,
		Duration: s.failureFor(), Renewed: time.Now()}
	if !failed {
		list, known := s.seen.last()
		if !known || slices.ContainsFunc(list, func(o kube.Lease) bool { return o.Name == l.Name }) {
			return s.released(ctx, l)
		}
		return nil
	}
	ctx, cancel := kube.Bound(context.WithoutCancel(ctx), letGoFor)
	defer cancel()
	before, err := s.api.TakeLease(ctx, l, "")
	if errors.Is(err, kube.ErrHeld) {
		_, err = s.api.TakeLease(ctx, l, before.Holder) // of an earlier group
	}
	return err
}
