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
	"nodejoin/steps/transport"
)

const (
	// lostFor is how long the agent of a lost connection may still hold a machine: its own bound of silence
	// is a minute.
	lostFor = 90 * time.Second
	// leaseFor is how long a Lease holds without being renewed. A difference of the
	// clocks of two controllers that is smaller than leaseFor-renewEvery does no harm.
	leaseFor   = 2 * time.Minute
	renewEvery = 20 * time.Second
	// healFor is how long the service of a machine that has just booted may hold it: its
	// slowest gate waits for five minutes.
	healFor = 6 * time.Minute
	// letGoFor bounds the release at the end of a run.
	letGoFor = 10 * time.Second
)

// hold locks the host for this run. A connection that is lost meanwhile is made again.
func (h *hostRun) hold(ctx context.Context) error {
	if h.opt.Holder.Run == "" {
		return nil
	}
	h.holds = true
	err := h.connect(ctx)
	if err == nil {
		err = h.lock(ctx)
	}
	if err != nil && dropped(err) && ctx.Err() == nil {
		err = h.reconnect(ctx, err, "applying") // it locks
	}
	if err != nil {
		h.holds = false
	}
	return err
}

// lock locks the connected host. It waits for a run that has ended, for this run's own lost connection, and
// for the healing after a boot; any other lock holder is an error at once.
func (h *hostRun) lock(ctx context.Context) error {
	reply, err := h.conn.Lock(ctx, steps.LockRequest{Holder: h.opt.Holder})
	if err == nil && reply.By != nil && (reply.By.Run == h.opt.Holder.Run || h.gone(*reply.By)) {
		h.state("waiting", "for the lock of a run whose connection was lost: "+reply.By.String())
		if reply, err = h.conn.Lock(ctx, steps.LockRequest{Holder: h.opt.Holder, Wait: lostFor}); err == nil &&
			reply.By == nil {
			h.state("applying", "")
		}
	}
	if err == nil && reply.By != nil && reply.By.Command == steps.BootCommand {
		h.state("waiting", "for the machine to be in order after its boot: "+reply.By.String())
		if reply, err = h.conn.Lock(ctx, steps.LockRequest{Holder: h.opt.Holder, Wait: healFor}); err == nil &&
			reply.By == nil {
			h.state("applying", "")
		}
	}
	var ce *transport.ConnectError
	switch {
	case errors.As(err, &ce) && ce.Host == "":
		ce.Host = h.node.Name
		return ce
	case err != nil:
		return err
	case reply.By != nil:
		return steps.Locked("the machine "+h.node.Name, *reply.By)
	case reply.Left != nil && h.report.Facts.BootTime.After(reply.Left.Since):
		h.emit(event.Warning{Host: h.node.Name, Summary: notEnded, Detail: reply.Left.String() +
			"; the machine has restarted since then" + goesOn})
	case reply.Left != nil && h.firstOf(*reply.Left):
		h.emit(event.Warning{Host: h.node.Name, Summary: notEnded, Detail: reply.Left.String() + goesOn})
	}
	return nil
}

// Texts about a run that died.
const (
	notEnded = "an earlier run did not end"
	goesOn   = "; this run continues from there"
)

// firstOf reports whether a dead run is reported for the first time: it leaves a Lease and the locks of all
// its hosts.
func (s *Session) firstOf(by steps.LockHolder) bool {
	_, known := s.reported.LoadOrStore(by.Run, true)
	return !known
}

func (s *Session) gone(by steps.LockHolder) bool { return s.opt.Gone != nil && s.opt.Gone(by) }

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
	want := kube.Lease{Name: leaseName(s.plan.Cluster.Name), Holder: s.opt.Holder.Run, Note: string(note),
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
		e.Remedy += fmt.Sprintf("; if it has ended without a word, its Lease ends %s",
			before.Renewed.Add(before.Duration).UTC().Format(time.RFC3339))
		return func() {}, e
	case ctx.Err() != nil:
		return func() {}, nil //nolint:nilerr // the hosts report it
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
	renewing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.renew(renewing, want)
	}()
	return func() {
		stop()
		<-done
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoFor)
		defer cancel()
		_ = s.api.ReleaseLease(release, want.Name, want.Holder) // else it ends by itself
	}, nil
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

// leaseName is "nodejoin-" and the name of the cluster block, which need not be one
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
