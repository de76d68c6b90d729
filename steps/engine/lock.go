package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

// letGo ends hold. If the host can no longer be reached, the next run finds the lock.
func (h *hostRun) letGo(ctx context.Context) {
	if !h.holds {
		return
	}
	h.holds = false
	if h.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoFor)
	defer cancel()
	_ = h.conn.Unlock(ctx)
}

// holdCluster takes the Lease of the plan's cluster and renews it until letGo, if the
// plan has a cluster that was opened. Only a Lease that another run holds is an
// error: the hosts have locks of their own, so any other fault is a warning.
func (s *Session) holdCluster(ctx context.Context) (letGo func(), err error) {
	if s.opt.Holder.Run == "" || s.plan.Cluster == nil || s.api == nil {
		return func() {}, nil
	}
	note, err := json.Marshal(s.opt.Holder)
	if err != nil {
		return func() {}, err
	}
	want := kube.Lease{Name: s.ownLease(), Holder: s.opt.Holder.Run, Note: string(note),
		Duration: leaseFor}
	take := func(from string) (kube.Lease, error) {
		want.Renewed = time.Now()
		return s.api.TakeLease(ctx, want, from)
	}
	before, err := take("")
	if errors.Is(err, kube.ErrHeld) && s.gone(holderOf(before)) {
		before, err = take(before.Holder)
	}
	switch {
	case errors.Is(err, kube.ErrHeld):
		e := steps.Locked("the cluster of the plan (Lease kube-system/"+want.Name+")", holderOf(before))
		e.Remedy += fmt.Sprintf("; if it died, its Lease ends at %s",
			before.Renewed.Add(before.Duration).UTC().Format(time.RFC3339))
		return func() {}, e
	case ctx.Err() != nil:
		return func() {}, nil //nolint:nilerr // the hosts report it
	case err == nil:
		if held := s.beside(ctx, want); held != nil {
			return func() {}, held
		}
	}
	switch {
	case err != nil:
		s.emit(event.Warning{Summary: "no Lease in the cluster",
			Detail: err.Error() + "; runs from elsewhere are kept off only by the lock of each machine"})
		return func() {}, nil //nolint:nilerr // the machines have locks of their own
	case before.Holder != "":
		by := holderOf(before)
		s.firstOf(by)
		s.emit(event.Warning{Summary: notEnded, Detail: by.String() + "; its Lease kube-system/" + want.Name +
			" is taken over" + goesOn})
	}
	return s.keep(ctx, want), nil
}

// keep renews a Lease that was taken, until letGo releases it.
func (s *Session) keep(ctx context.Context, l kube.Lease) (letGo func()) {
	renewing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.renew(renewing, l)
	}()
	return func() {
		stop()
		<-done
		s.release(ctx, l)
	}
}

// release gives a Lease back; where that fails, it ends by itself.
func (s *Session) release(ctx context.Context, l kube.Lease) { _ = s.released(ctx, l) }

// released gives a Lease back, and says why it could not.
func (s *Session) released(ctx context.Context, l kube.Lease) error {
	ctx, cancel := kube.Bound(context.WithoutCancel(ctx), letGoFor)
	defer cancel()
	return s.api.ReleaseLease(ctx, l.Name, l.Holder)
}

// The names of other Leases than the plan's have one of these after its name: those of a shard's run, of a Node that
// the rollout has out of service, of a node whose run has failed, and of how far the waves of the rollout are.
const (
	shardMark  = ".shard-"
	slotMark   = ".slot-"
	failedMark = ".failed-"
	wavesMark  = ".waves-"
)

// ownLease is the name of the Lease of this run: that of the plan, or of its shard.
func (s *Session) ownLease() string {
	name := leaseName(s.planName())
	if s.opt.Shard != "" {
		name += shardMark + strings.ReplaceAll(s.opt.Shard, "/", "-of-")
	}
	return name
}

// beside refuses a run over the whole plan while one of a shard goes on, and the other way round. Each run has written
// its own Lease before it reads the others, so that of two at least one sees the other. own is released then.
func (s *Session) beside(ctx context.Context, own kube.Lease) error {
	whole := leaseName(s.planName())
	list, err := s.api.Leases(ctx, whole)
	if err != nil {
		return nil //nolint:nilerr // the machines have locks of their own
	}
	s.removeEnded(ctx, list)
	for _, l := range list {
		other := l.Name == whole && s.opt.Shard != "" || s.opt.Shard == "" && strings.HasPrefix(l.Name, whole+shardMark)
		if !other || !l.Live(time.Now()) || s.gone(holderOf(l)) {
			continue
		}
		s.release(ctx, own)
		return steps.Locked("the cluster of the plan (Lease kube-system/"+l.Name+")", holderOf(l))
	}
	return nil
}

// removeEnded removes the slots, failures and waves of the plan whose time has run out. The Lease of a run stays until
// the next one has reported it.
func (s *Session) removeEnded(ctx context.Context, list []kube.Lease) {
	for _, l := range list {
		rest, of := strings.CutPrefix(l.Name, leaseName(s.planName()))
		if of && !l.Live(time.Now()) && (strings.HasPrefix(rest, slotMark) ||
			strings.HasPrefix(rest, failedMark) || strings.HasPrefix(rest, wavesMark)) {
			s.release(ctx, l)
		}
	}
}

// renew renews the Lease until ctx ends, or until it is another's.
func (s *Session) renew(ctx context.Context, l kube.Lease) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.Renewed = time.Now()
		before, err := s.api.TakeLease(ctx, l, "")
		if errors.Is(err, kube.ErrHeld) {
			s.emit(event.Warning{Summary: "the Lease in the cluster was lost", Detail: "another run has it now: " +
				holderOf(before).String()})
			return
		}
	}
}

// holderOf reads the note of a Lease; one that is not nodejoin's has its holder's name.
func holderOf(l kube.Lease) steps.LockHolder {
	var h steps.LockHolder
	if json.Unmarshal([]byte(l.Note), &h) != nil || h.Run != l.Holder {
		h = steps.LockHolder{Run: l.Holder, User: l.Holder, Host: "an unknown machine", Command: "a run", Since: l.Renewed}
	}
	return h
}

// leaseName is "nodejoin-" and the name of the plan, which need not be one
// that Kubernetes allows (RFC 1123 subdomain: lower case, digits, '-' and '.').
func leaseName(cluster string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(cluster))
	return "nodejoin-" + strings.TrimRight(name, "-")
}
