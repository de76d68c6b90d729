package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// serviceRollback rolls a service back: it is stopped before anything else changes,
// registered as before once everything else is restored, and started in the end.
type serviceRollback struct {
	name    string
	was     serviceState
	stopped bool // it has been stopped since the snapshot
	started bool // it was started by this rollback
}

// rollBackService: a service that was not registered is undone as by a leave.
func rollBackService(key record.Key, item record.Item) (steps.PhasedRollback, error) {
	if !item.Existed {
		unregister, err := undoService(key, item.Claim)
		return steps.PhasedRollback{Before: unregister}, err
	}
	s := &serviceRollback{name: key.Name, stopped: item.Stopped}
	if err := json.Unmarshal(item.Previous, &s.was); err != nil {
		return steps.PhasedRollback{}, fmt.Errorf("service %s: its earlier state: %w", key.Name, err)
	}
	return steps.PhasedRollback{
		Before:    steps.Undoing{Check: s.checkStop, Apply: s.stop},
		After:     steps.Undoing{Check: s.checkConfig, Apply: s.configure},
		Last:      steps.Undoing{Check: s.checkStart, Apply: s.start},
		LastAfter: s.was.Config.DependsOn,
		Restarted: func() bool { return s.started },
	}, nil
}

func (s *serviceRollback) sameConfig(have host.Service) bool {
	return len(configDiffs(have.ServiceConfig, normal(s.was.Config), nil)) == 0
}

// checkStop: a service that runs as it did before the snapshot keeps running.
func (s *serviceRollback) checkStop(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
	have, err := r.Service(ctx, s.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && have.State == host.ServiceStopped {
		return steps.Change{}, "", nil
	}
	if err != nil || !s.stopped && s.was.Running && s.sameConfig(have) {
		return steps.Change{}, "", err
	}
	return steps.Change{Action: steps.ActionUpdate, Reason: "it stops"}, "", nil
}

func (s *serviceRollback) stop(ctx context.Context, h host.Host, e *steps.Env) error {
	return stopService(ctx, h, e, s.name)
}

func (s *serviceRollback) checkConfig(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
	have, err := r.Service(ctx, s.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return steps.Change{Action: steps.ActionCreate}, "", nil
	case err != nil || s.sameConfig(have):
		return steps.Change{}, "", err
	}
	return steps.Change{Action: steps.ActionUpdate, Reason: "registered as before"}, "", nil
}

func (s *serviceRollback) configure(ctx context.Context, h host.Host, _ *steps.Env) error {
	if _, err := h.Service(ctx, s.name); errors.Is(err, fs.ErrNotExist) {
		return h.CreateService(ctx, s.was.Config)
	}
	return h.UpdateService(ctx, s.was.Config)
}

func (s *serviceRollback) checkStart(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
	if s.was.Fingerprint != "" {
		e.Record.Fingerprints[s.name] = s.was.Fingerprint
	} else {
		delete(e.Record.Fingerprints, s.name)
	}
	if s.was.Start != nil && !s.started {
		e.Record.Starts[s.name] = *s.was.Start
	}
	have, err := r.Service(ctx, s.name)
	if err != nil || !s.was.Running {
		return steps.Change{}, "", err
	}
	if have.State == host.ServiceRunning {
		if s.stopped && !s.started { // it was started with another one
			s.started = true
			if start, ok := e.Record.Starts[s.name]; ok {
				start.PID = have.PID
				e.Record.Starts[s.name] = start
			}
		}
		if len(e.Record.Stopped[s.name]) == 0 {
			return steps.Change{}, "", nil
		}
	}
	return steps.Change{Action: steps.ActionStart}, "", nil
}

func (s *serviceRollback) start(ctx context.Context, h host.Host, e *steps.Env) error {
	have, err := h.Service(ctx, s.name)
	if err != nil {
		return err
	}
	if have.State != host.ServiceRunning {
		if err := startService(ctx, h, s.name, ""); err != nil {
			return err
		}
		s.started = true
		if err := noteRestart(ctx, h, e, s.name); err != nil {
			return err
		}
	}
	return startAgain(ctx, h, e, s.name)
}
