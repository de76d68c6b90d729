package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/event"
	"nodejoin/steps/host"
)

// TakeBackRequest asks for the machine to be as it was before its open trial.
type TakeBackRequest struct {
	Node string `json:"node"`
}

// TakeBackReply is what taking a trial back came to.
type TakeBackReply struct {
	// Trial is what the Node was before; nil: no trial was open, or nothing had been
	// changed in it yet, and nothing was done.
	Trial *TrialStart `json:"trial,omitempty"`
	Back
	Failed    string `json:"failed,omitempty"` // key of the claim
	Err       *Error `json:"err,omitempty"`    // what ended it; the next run goes on from there
	Mutations int64  `json:"mutations"`
}

// TakeBack puts everything back that was changed since the trial began: services that
// were registered go, files and settings are as they were, services that ran run. It
// stops at the first failure, with the trial open: whatever comes next, another try or
// a run that goes forward, starts from there. One that was taken back already, and not
// Verified since, gets the same answer again.
func (x *Executor) TakeBack(ctx context.Context, req TakeBackRequest) (TakeBackReply, error) {
	if err := x.prepare(ctx); err != nil {
		return TakeBackReply{}, err
	}
	t := x.record.Trial
	if t != nil && t.Back != nil {
		return TakeBackReply{Trial: &t.TrialStart, Back: *t.Back, Mutations: x.Mutations()}, nil
	}
	if !t.kept() {
		return TakeBackReply{}, nil
	}
	start := t.TrialStart
	reply := TakeBackReply{Trial: &start}
	b := &takeBack{x: x, node: req.Node, trial: t, reply: &reply}
	services, err := b.services(ctx)
	if err != nil {
		return TakeBackReply{}, err
	}
	b.run(ctx, services)
	if reply.Err == nil {
		reply.Err = AsError(b.settle(ctx))
	}
	reply.Mutations = x.Mutations()
	return reply, nil
}

type takeBack struct {
	x     *Executor
	node  string
	trial *Trial
	reply *TakeBackReply
}

// oldService is a kept service with its earlier state; nil = it was not registered.
type oldService struct {
	name string
	kept Kept
	was  *keptService
}

func (b *takeBack) services(ctx context.Context) (out []oldService, err error) {
	for key, k := range b.trial.Kept {
		name, ok := strings.CutPrefix(key, "service:")
		if !ok {
			continue
		}
		s := oldService{name: name, kept: k}
		if k.Existed {
			o, err := b.x.state(ctx, k)
			if err == nil {
				s.was = &keptService{}
				err = json.Unmarshal(o.Previous, s.was)
			}
			if err != nil {
				return nil, fmt.Errorf("service %s: %w", name, err)
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b oldService) int {
		return cmp.Or(cmp.Compare(b.kept.Seq, a.kept.Seq), cmp.Compare(a.name, b.name))
	})
	return out, nil
}

func (b *takeBack) run(ctx context.Context, services []oldService) {
	for _, s := range services {
		b.item(ctx, serviceKey(s.name), func(ctx context.Context, e *Env) (Change, func(context.Context) error, string, error) {
			return b.stop(ctx, e, s)
		})
	}
	for _, key := range b.keys() {
		b.item(ctx, key, func(ctx context.Context, e *Env) (Change, func(context.Context) error, string, error) {
			o, err := b.x.state(ctx, b.trial.Kept[key])
			if err != nil {
				return Change{}, nil, "", err
			}
			u, err := undoOf(key, o)
			if err != nil {
				return Change{}, nil, "", err
			}
			c, left, err := u.look(ctx, b.x.host, e)
			return c, func(ctx context.Context) error { return u.do(ctx, b.x.host, e) }, left, err
		})
	}
	for _, s := range services {
		if s.was != nil {
			b.item(ctx, serviceKey(s.name), func(ctx context.Context, _ *Env) (Change, func(context.Context) error, string, error) {
				return b.configure(ctx, s)
			})
		}
	}
	for _, s := range inStartOrder(services) {
		b.item(ctx, serviceKey(s.name), func(ctx context.Context, e *Env) (Change, func(context.Context) error, string, error) {
			return b.start(ctx, e, s)
		})
	}
}

// keys are what is kept besides services: networks first, then backwards in the order in
// which it was altered. Nodejoin's own folder and those above it are not among them.
func (b *takeBack) keys() []string {
	var keys []string
	for key := range b.trial.Kept {
		dir, isDir := strings.CutPrefix(key, "directory:")
		if strings.HasPrefix(key, "service:") || strings.HasPrefix(key, droppedKey) || isDir && within(b.x.facts.OS, dir, b.x.facts.DataDir) {
			continue
		}
		keys = append(keys, key)
	}
	first := func(key string) int {
		if ofPrograms(key) {
			return 0
		}
		return 1
	}
	slices.SortFunc(keys, func(p, q string) int {
		return cmp.Or(cmp.Compare(first(p), first(q)), cmp.Compare(b.trial.Kept[q].Seq, b.trial.Kept[p].Seq), cmp.Compare(p, q))
	})
	return keys
}

// item looks at one thing and puts it back; after a failure it does nothing any more.
func (b *takeBack) item(ctx context.Context, key string, look func(context.Context, *Env) (Change, func(context.Context) error, string, error)) {
	if b.reply.Err != nil {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, undoTimeout, &Error{Code: CodeTimeout, Summary: "not done in time", Detail: fmt.Sprintf("%s took longer than %s", key, undoTimeout)})
	defer cancel()
	var c Change
	started := false
	err := func() (err error) {
		defer recoverInto(&err)
		c2, do, left, err := look(ctx, b.x.env(b.node, key))
		if c = c2; err != nil {
			return err
		}
		if left != "" {
			b.reply.Left = append(b.reply.Left, key+": "+left)
		}
		if c.NoOp() {
			return nil
		}
		started = true
		b.x.emit(event.StepStarted{Host: b.node, Step: key, Kind: "rollback", Action: string(c.Action), Reason: c.Reason})
		return do(ctx)
	}()
	if err != nil && ctx.Err() != nil {
		err = causeOr(ctx, err)
	}
	if err != nil {
		b.reply.Failed, b.reply.Err = key, AsError(err)
	}
	if started || err != nil {
		d := event.StepDone{Host: b.node, Step: key, Result: "changed", Action: string(c.Action), Duration: time.Since(began)}
		if e := b.reply.Err; e != nil {
			d.Result, d.Summary, d.Detail, d.Remedy = "failed", e.Summary, e.Detail, e.Remedy
		}
		b.x.emit(d)
	}
}

// stop ends a service that was changed, and unregisters one that was not there. One that
// runs as it did before the trial runs on.
func (b *takeBack) stop(ctx context.Context, e *Env, s oldService) (Change, func(context.Context) error, string, error) {
	if s.was == nil {
		u, err := undoService(s.name, s.kept.Owned)
		if err != nil {
			return Change{}, nil, "", err
		}
		c, left, err := u.look(ctx, b.x.host, e)
		return c, func(ctx context.Context) error { return u.do(ctx, b.x.host, e) }, left, err
	}
	have, err := b.x.host.Service(ctx, s.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && have.State == host.ServiceStopped {
		return Change{}, nil, "", nil
	}
	if err != nil || !s.kept.Stopped && s.was.Running && len(configDiffs(have.ServiceConfig, normal(s.was.Config), nil)) == 0 {
		return Change{}, nil, "", err
	}
	return Change{Action: ActionUpdate, Reason: "it stops"}, func(ctx context.Context) error { return stopService(ctx, b.x.host, e, s.name) }, "", nil
}

func (b *takeBack) configure(ctx context.Context, s oldService) (Change, func(context.Context) error, string, error) {
	have, err := b.x.host.Service(ctx, s.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Change{Action: ActionCreate}, func(ctx context.Context) error { return b.x.host.CreateService(ctx, s.was.Config) }, "", nil
	case err != nil || len(configDiffs(have.ServiceConfig, normal(s.was.Config), nil)) == 0:
		return Change{}, nil, "", err
	}
	return restoredTo("registered as before"), func(ctx context.Context) error { return b.x.host.UpdateService(ctx, s.was.Config) }, "", nil
}

func restoredTo(reason string) Change { return Change{Action: ActionUpdate, Reason: reason} }

func (b *takeBack) start(ctx context.Context, e *Env, s oldService) (Change, func(context.Context) error, string, error) {
	if s.was.Fingerprint != "" {
		b.x.record.Fingerprints[s.name] = s.was.Fingerprint
	} else {
		delete(b.x.record.Fingerprints, s.name)
	}
	have, err := b.x.host.Service(ctx, s.name)
	if err != nil || !s.was.Running {
		return Change{}, nil, "", err
	}
	do := func(ctx context.Context) error {
		if err := startService(ctx, b.x.host, s.name, ""); err != nil {
			return err
		}
		b.reply.Services = append(b.reply.Services, s.name)
		return startAgain(ctx, b.x.host, e, s.name)
	}
	if have.State == host.ServiceRunning {
		if s.kept.Stopped { // the service manager started it with another one
			b.reply.Services = append(b.reply.Services, s.name)
		}
		if len(e.Record.Stopped[s.name]) == 0 {
			return Change{}, nil, "", nil
		}
		do = func(ctx context.Context) error { return startAgain(ctx, b.x.host, e, s.name) }
	}
	return Change{Action: ActionStart}, do, "", nil
}

// inStartOrder gives the services that were there, each after those that it depends on.
func inStartOrder(services []oldService) (out []oldService) {
	seen := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		i := slices.IndexFunc(services, func(s oldService) bool { return strings.EqualFold(s.name, name) })
		if i < 0 || seen[services[i].name] || services[i].was == nil {
			return
		}
		seen[services[i].name] = true
		for _, d := range services[i].was.Config.DependsOn {
			add(d)
		}
		out = append(out, services[i])
	}
	for _, s := range slices.Backward(services) {
		add(s.name)
	}
	return out
}

// settle brings the record back, and notes in it that the machine is.
func (b *takeBack) settle(ctx context.Context) error {
	r := b.x.record
	for id, u := range b.trial.Archives {
		if u == nil {
			delete(r.Archives, id)
		} else {
			r.Archives[id] = *u
		}
	}
	for key, k := range b.trial.Kept {
		o, ok := r.Owned[key]
		if !ok || k.Claimed {
			continue
		}
		if dir, isDir := strings.CutPrefix(key, "directory:"); isDir && within(b.x.facts.OS, dir, b.x.facts.DataDir) {
			continue
		}
		o.Undone = true
		r.Owned[key] = o
	}
	back := b.reply.Back
	b.trial.Ended, b.trial.Back = true, &back
	if err := r.Save(ctx, b.x.host, b.x.facts); err != nil {
		b.trial.Ended, b.trial.Back = false, nil
		return err
	}
	return nil
}
