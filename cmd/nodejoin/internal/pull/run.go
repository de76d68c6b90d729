package pull

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

// reportFor bounds how long the cluster is told the result.
const reportFor = 30 * time.Second

// shortPause is a random pause of which the cluster is not told.
const shortPause = time.Minute

// Run is one round of a node that follows a plan.
type Run struct {
	Path string // of its File
	// Apply runs 'nodejoin apply' with these arguments.
	Apply firstboot.Apply
	// Open opens the cluster of a File.
	Open func(context.Context, *File) (kube.API, error)
	Say  func(string)

	file   *File
	state  state
	store  *artifact.Store
	api    kube.API // nil = not opened
	why    string   // the last apply failed; "" = it did not say so
	holder steps.LockHolder
	login  steps.Login // of this machine, as Login has read it
	turn   *turn       // of the apply
	begun  bool        // the apply may change the machine
	// absent: the release does not have this node.
	absent bool
	ended  ended // the last apply
}

// work is the folder of the run, which it makes and removes.
func (r *Run) work() string { return r.Path + ".work" }

// statePath is the file of the state.
func (r *Run) statePath() string { return r.Path + ".state" }

// Do makes one round: it applies a new release to this node, and reports what it came to. It returns the exit code.
func (r *Run) Do(ctx context.Context) (code int, err error) {
	if r.Path, err = filepath.Abs(r.Path); err != nil {
		return 0, err
	}
	if r.file, err = ReadFile(r.Path); err != nil {
		return 0, err
	}
	lock := flock.New(r.Path+".lock", flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); err != nil {
		return 0, fmt.Errorf("the lock of this run: %w", err)
	} else if !ok {
		r.Say("another round is still running")
		return exitOK, nil
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if r.state, err = readState(r.statePath()); err != nil {
		return 0, err
	}
	r.holder = holder.New("follow")
	r.store = newStore()
	defer r.store.Close()
	defer func() {
		if r.api != nil {
			r.api.Close()
		}
	}()
	result, code := r.round(ctx)
	if ctx.Err() != nil {
		return code, context.Cause(ctx)
	}
	return code, r.report(ctx, result)
}

// newStore is what releases are fetched with.
func newStore() *artifact.Store { return artifact.New(artifact.Options{Direct: true}) }

// round does what is due.
func (r *Run) round(ctx context.Context) (Result, int) {
	rel, by, err := r.file.release(ctx, r.store)
	if err != nil {
		return failed(rel, err)
	}
	done := Result{Applied, rel.Serial, fmt.Sprintf("release %d, signed by %s", rel.Serial, by)}
	switch s := r.state; {
	case rel.Serial < s.Serial:
		return failed(rel, fmt.Errorf("release %d is older than release %d, which this node has", rel.Serial, s.Serial))
	case rel.Serial == s.Serial && rel.SHA256 != s.SHA256:
		return failed(rel, fmt.Errorf("release %d already names another bundle", rel.Serial))
	case rel.Serial == s.Serial && !s.Applied.IsZero():
		return done, exitOK
	case rel.Serial == s.Serial && s.RolledBack != Result{}:
		r.holdUp(ctx, rel)
		return s.RolledBack, exitFailed
	case !r.file.mayApply(time.Now()):
		return waits(rel, "its window"), exitOK
	}
	if r.file.jitter > 0 {
		pause, err := upTo(r.file.jitter)
		if err != nil {
			return failed(rel, &ownError{err})
		}
		if pause > shortPause {
			r.waiting(ctx, rel, "a random pause of "+pause.Round(time.Minute).String())
		}
		if err := wait.Pause(ctx, pause); err != nil {
			return failed(rel, err)
		}
		if !r.file.stands(r.Path) {
			return waits(rel, changed), exitOK
		}
	}
	return r.take(ctx, rel, done)
}

// upTo is a random time up to a limit.
func upTo(limit time.Duration) (time.Duration, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(limit)))
	if err != nil {
		return 0, err
	}
	return time.Duration(n.Int64()), nil
}

// take fetches a release, and applies it when it is this node's turn.
func (r *Run) take(ctx context.Context, rel Release, done Result) (Result, int) {
	if err := firstboot.Folders(r.work()); err != nil {
		return failed(rel, &ownError{err})
	}
	r.Say(fmt.Sprintf("fetching release %d", rel.Serial))
	bundle, err := r.file.fetch(ctx, r.store, rel, r.work())
	if err != nil {
		return failed(rel, err)
	}
	api, err := r.cluster(ctx)
	if err != nil {
		return failed(rel, &fetchedError{err})
	}
	if err := joined(ctx, api, r.file.Node); err != nil {
		return failed(rel, err)
	}
	return r.apply(ctx, rel, bundle, done)
}

// apply applies a bundle to this node when it is its turn.
func (r *Run) apply(ctx context.Context, rel Release, bundle string, done Result) (result Result, code int) {
	r.turn, r.ended, r.absent, r.begun, r.why = r.newTurn(rel), ended{}, false, false, ""
	defer func() {
		if r.turn.end != nil {
			e := r.ends(ctx, result, code)
			r.othersKnow(r.turn.end(ctx, e), e)
		}
	}()
	args := []string{"apply", "--auto-approve", "--display", "plain"}
	if r.file.Environment != "" {
		args = append(args, "--env", r.file.Environment)
	}
	for _, name := range slices.Sorted(maps.Keys(r.file.Values)) {
		args = append(args, "--var", name+"="+r.file.Values[name])
	}
	code, outcome := r.Apply(ctx, append(args, bundle))
	switch {
	case r.absent:
		return failed(rel, fmt.Errorf("release %d has no node %s", rel.Serial, r.file.Node))
	case r.turn.held != Result{}:
		return r.turn.held, r.turn.code
	}
	text := fmt.Sprintf("the apply of release %d ended with exit code %d", rel.Serial, code)
	if r.why != "" {
		text += ": " + r.why
	}
	switch {
	case r.ended.paused():
		return waits(rel, "the end of the pause ("+steps.AsError(r.ended.Err).Detail+")"), exitOK
	case r.ended.rolledBack() && ctx.Err() == nil:
		text = fmt.Sprintf("release %d failed at %s and was rolled back (%s); this node waits for a newer one",
			rel.Serial, r.ended.Failed, steps.AsError(r.ended.Err).Summary)
		r.state.RolledBack = Result{RolledBack, rel.Serial, text}
		if err := r.state.write(r.statePath()); err != nil {
			r.Say("the next round tries this release again: " + err.Error())
		}
		return r.state.RolledBack, code
	}
	switch outcome {
	case firstboot.Finished:
		r.state.Applied = time.Now().UTC().Truncate(time.Second)
		if err := os.RemoveAll(r.work()); err != nil {
			r.Say("the folder of the run stays: " + err.Error())
		}
		return done, exitOK
	case firstboot.Rebooting:
		return Result{Rebooting, rel.Serial, "the machine must be rebooted; a round after that goes on"}, code
	case firstboot.Waiting:
		return Result{Waiting, rel.Serial, text + "; the next round tries again"}, code
	default:
		return Result{ApplyFails, rel.Serial, text + "; the next round tries again"}, code
	}
}

// Fails notes with what an apply ends: of several failures the first.
func (r *Run) Fails(text string) {
	if r.why == "" {
		r.why = strings.Join(strings.Fields(text), " ")
	}
}

// newTurn is the turn of this node for a release.
func (r *Run) newTurn(rel Release) *turn {
	return &turn{file: r.file, rel: rel, store: r.store, holder: r.holder, cluster: r.cluster, say: r.Say,
		stands:  func() bool { return r.file.stands(r.Path) },
		waiting: func(ctx context.Context, what string) { r.waiting(ctx, rel, what) }}
}

// begin notes that the apply begins: an older release is refused from then on.
func (r *Run) begin(p *plan.Compiled) {
	rel := r.turn.rel
	next := state{Serial: rel.Serial, SHA256: rel.SHA256, Environment: p.Environment, Result: r.state.Result,
		Since: r.state.Since}
	if p.Cluster != nil {
		next.Cluster = p.Cluster.Name
	}
	if err := next.write(r.statePath()); err != nil {
		r.turn.held, r.turn.code = failed(rel, &ownError{err})
		return
	}
	r.state, r.begun = next, true
}

// ends is how the turn ends with the result of the apply.
func (r *Run) ends(ctx context.Context, result Result, code int) engine.TurnEnd {
	switch {
	case !r.begun || code == exitLocked:
		return engine.TurnUnused
	case ctx.Err() != nil || result.Reason == Rebooting:
		return engine.TurnOpen
	case result.Reason == Applied:
		return engine.TurnDone
	case r.ended.paused() && !r.ended.begun(ctx, r.api, r.file.Node):
		return engine.TurnOpen
	}
	return engine.TurnFailed // it has begun, and its Node may be cordoned
}

// holdUp notes for another day that this node has rolled back a release.
func (r *Run) holdUp(ctx context.Context, rel Release) {
	p := &plan.Compiled{Environment: r.state.Environment, Nodes: []plan.Node{{Name: r.file.Node}}}
	if r.state.Cluster != "" {
		p.Cluster = &plan.Cluster{Name: r.state.Cluster}
	}
	r.othersKnow(r.newTurn(rel).session(p, func(event.Event) {}).NoteFailure(ctx), engine.TurnFailed)
}

// othersKnow says why the other nodes do not know how the turn of this one has ended; nil = they do.
func (r *Run) othersKnow(err error, e engine.TurnEnd) {
	switch {
	case err == nil:
	case e == engine.TurnDone:
		r.Say("the other nodes still count this one as failed: " + err.Error())
	default:
		r.Say("the other nodes do not know of the failure: " + err.Error())
	}
}

// waiting says for what a round waits, before it goes on.
func (r *Run) waiting(ctx context.Context, rel Release, what string) {
	if err := r.report(ctx, waits(rel, what)); err != nil {
		r.Say("the machine does not have this result: " + err.Error())
	}
}

// report says what a round came to, here, on the machine and on its Node. A cluster that cannot be told does not fail
// the round: the next one tells it.
func (r *Run) report(ctx context.Context, result Result) error {
	result.Message = cut(result.Message)
	r.Say(string(result.Reason) + ": " + result.Message)
	if r.state.Since.IsZero() || result.Reason.status() != r.state.Result.Reason.status() {
		r.state.Since = time.Now().UTC().Truncate(time.Second)
	}
	r.state.Result = result
	err := r.save()
	if err := r.tell(ctx); err != nil {
		r.Say("the Node does not have this result: " + err.Error())
	}
	return err
}

// save writes the state, unless the machine follows no plan any more.
func (r *Run) save() error {
	if _, err := os.Stat(r.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return r.state.write(r.statePath())
}

// tell gives the Node the result.
func (r *Run) tell(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reportFor, errors.New("no answer for "+reportFor.String()))
	defer cancel()
	api, err := r.cluster(ctx)
	if err != nil {
		return err
	}
	return r.state.tell(ctx, api, r.file)
}

// cluster opens the cluster, once.
func (r *Run) cluster(ctx context.Context) (kube.API, error) {
	var err error
	if r.api == nil {
		r.api, err = r.Open(ctx, r.file)
	}
	return r.api, err
}

// Login is that of this machine, as an apply of a release to it leaves it; without a user and a token = it has none.
func (r *Run) Login() *steps.Login {
	r.login = steps.Login{}
	if u, err := url.Parse(r.file.Source); err == nil && r.file.Login != "" {
		l, _ := readLogin(r.file.Login) // the round has read it; one that is gone since is noticed by Prepare
		r.login = l.at(u.Host)
	}
	return &r.login
}

// Prepare leaves of a plan what this node applies of it. That is all that the plan has for the machine: what it no
// longer names is removed, and a failed upgrade is rolled back. It waits for the turn of the node.
func (r *Run) Prepare(ctx context.Context, p *plan.Compiled) error {
	firstboot.Own(p, r.file.Node)
	if r.absent = len(p.Nodes) == 0; r.absent {
		return &steps.Error{Code: steps.CodeInvalid, Summary: "the plan does not have this node",
			Detail: "the release has no node " + r.file.Node + "; nothing is changed",
			Remedy: "to take the machine out of the cluster, run 'nodejoin leave'; else correct node in " + r.Path}
	}
	if r.file.Managed && !r.goesOn(p.Nodes[0]) {
		rel := r.turn.rel
		r.turn.held, r.turn.code = failed(rel, fmt.Errorf("release %d has no follow block for node %s: it would remove "+
			"the program that applies it; apply that plan once from a controller", rel.Serial, r.file.Node))
		return firstboot.ErrNotNow
	}
	if err := r.file.keepsLogin(ctx, r.login, r.turn.rel, p.Nodes[0]); err != nil {
		r.turn.held, r.turn.code = failed(r.turn.rel, err)
		return firstboot.ErrNotNow
	}
	for i := range p.Nodes {
		p.Nodes[i].Partial = false // what others do of it makes nothing on the machine
	}
	if r.turn.take(ctx, p); r.turn.held == (Result{}) {
		r.begin(p)
	}
	if !r.begun {
		return firstboot.ErrNotNow
	}
	return nil
}

// goesOn reports whether the node still follows a plan by the file of the run.
func (r *Run) goesOn(n plan.Node) bool {
	return slices.ContainsFunc(n.Steps, func(s steps.Spec) bool {
		f, ok := kinds.As[kinds.File](s)
		return ok && !f.Absent && host.SamePath(n.OS, f.Path, r.Path)
	})
}

// Options are those of an engine that runs on this machine.
func (r *Run) Options(_ *plan.Compiled, opt engine.Options) engine.Options {
	opt.Members, opt.Resume, opt.Pausable = nil, nil, true
	opt.Shard, opt.InTurn = shard(r.file.Node), true
	opt.Holder = r.holder // that of its slot, which a run without a Lease of its own would have left
	opt.Done = func(s engine.HostSummary) { r.ended = ended{&s} }
	open := opt.Cluster // simulated
	if r.file.Kubeconfig != "" {
		open = func(ctx context.Context) (kube.API, error) { return r.Open(ctx, r.file) }
	}
	opt.Cluster = func(ctx context.Context) (kube.API, error) {
		api, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return member{api}, nil
	}
	return opt
}
