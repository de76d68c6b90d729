package pull

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

// turn is the turn of a node among those that follow the same plan: one at a time, and none after one that has not
// finished.
type turn struct {
	api    kube.API
	file   *File
	serial int64
	say    func(string)
	// waits is told once, when others come first.
	waits  func(ctx context.Context, what string)
	stands func() bool // the file of the run is still what it was
}

const (
	leaseFor   = 2 * time.Minute // how long a Lease holds without being renewed
	renewEvery = 30 * time.Second
	lookEvery  = 15 * time.Second
	longestTry = time.Hour // then the next round waits
	letGoFor   = 10 * time.Second
	// failedFor is how long a node that has failed holds up the others, unless it succeeds before.
	failedFor = 24 * time.Hour
)

// name is that of the Lease of the plan's nodes.
func (t turn) name() string { return "nodejoin-follow." + t.file.Plan }

// failedName is the Lease that says that a node has failed.
func (t turn) failedName(node string) string { return t.name() + ".failed-" + node }

// lease is the Lease with this name, of this node.
func (t turn) lease(name string, lasts time.Duration) kube.Lease {
	return kube.Lease{Name: name, Holder: t.file.Node, Note: fmt.Sprintf("release %d", t.serial), Duration: lasts,
		Renewed: time.Now()}
}

// changed is what a round waits for whose file is not what it was.
const changed = "the next round, as the file of this one has changed"

// take waits until it is this node's turn. waits says for what it still waits when its time is over.
func (t turn) take(ctx context.Context) (letGo func(), waits string, err error) {
	end := time.Now().Add(longestTry)
	for said := ""; ; {
		if !t.stands() {
			return nil, changed, nil
		}
		waits, err := t.try(ctx)
		switch {
		case err != nil:
			return nil, "", err
		case waits == "" && t.file.mayApply(time.Now()):
			return t.keep(ctx), "", nil
		case waits == "":
			t.release(ctx, t.name())
			return nil, "its window", nil
		case time.Now().After(end) || !t.file.mayApply(time.Now()):
			return nil, waits, nil
		case said == "":
			t.waits(ctx, "its turn, after "+waits)
		case waits != said:
			t.say("waiting for " + waits)
		}
		said = waits
		if err := wait.Pause(ctx, lookEvery); err != nil {
			return nil, "", err
		}
	}
}

// try takes the Lease, or says what is waited for. A failure is looked for when the Lease is held: who has failed
// notes that before it lets go.
func (t turn) try(ctx context.Context) (waits string, err error) {
	before, err := t.api.TakeLease(ctx, t.lease(t.name(), leaseFor), "")
	if errors.Is(err, kube.ErrHeld) {
		return "the node " + before.Holder, nil
	}
	if err != nil {
		return "", err
	}
	list, err := t.api.Leases(ctx, t.failedName(""))
	if err != nil {
		t.release(ctx, t.name())
		return "", err
	}
	for _, l := range list {
		if l.Holder != t.file.Node && l.Live(time.Now()) && l.Note == t.lease("", 0).Note {
			t.release(ctx, t.name())
			return "the node " + l.Holder + ", where it has not finished", nil
		}
	}
	return "", nil
}

// keep renews the Lease until letGo.
func (t turn) keep(ctx context.Context) (letGo func()) {
	renewing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait.Pause(renewing, renewEvery) == nil {
			if _, err := t.api.TakeLease(renewing, t.lease(t.name(), leaseFor), ""); err != nil && renewing.Err() == nil {
				t.say("the Lease is not renewed: " + err.Error())
			}
		}
	}()
	return func() {
		stop()
		<-done
		t.release(ctx, t.name())
	}
}

// release gives a Lease back; where that fails, it ends by itself.
func (t turn) release(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoFor)
	defer cancel()
	if err := t.api.ReleaseLease(ctx, name, t.file.Node); err != nil {
		t.say("the Lease " + name + " ends by itself: " + err.Error())
	}
}

// failed keeps the other nodes from this release, which this node has begun and not finished.
func (t turn) failed(ctx context.Context) {
	if _, err := t.api.TakeLease(ctx, t.lease(t.failedName(t.file.Node), failedFor), ""); err != nil {
		t.say("the other nodes do not know of the failure: " + err.Error())
	}
}

// done lets the other nodes go on.
func (t turn) done(ctx context.Context) { t.release(ctx, t.failedName(t.file.Node)) }
