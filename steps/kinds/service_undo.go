package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
	"nodejoin/steps/wait"
)

// undoService stops and unregisters a service. One that something else has
// registered since under the same name is not touched. Services that depend on it must be
// unregistered first.
func undoService(key record.Key, claim record.Claim) (steps.Undoing, error) {
	name, cri := key.Name, claim.Detail
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
			svc, err := r.Service(ctx, name)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				s, err := stranded(ctx, r, e, cri)
				if err != nil || s.none() {
					return steps.Change{}, "", err
				}
				return steps.Change{Action: steps.ActionDelete, Reason: "it is gone; " + s.String()}, "", nil
			case err != nil:
				return steps.Change{}, "", err
			case svc.Description != "" && !strings.HasSuffix(strings.TrimSpace(svc.Description), steps.OwnershipMark):
				// Without any description it is a registration of ours that was interrupted.
				return steps.Change{}, "its description no longer says that nodejoin manages it, so it may be somebody else's", nil
			}
			dependents, err := r.Dependents(ctx, name)
			if err != nil {
				return steps.Change{}, "", err
			}
			for _, d := range dependents {
				other, err := r.Service(ctx, d)
				if err == nil && !steps.Ours(other, e.Record) {
					return steps.Change{}, "", &steps.Error{Code: steps.CodeFailed,
						Summary: "a service that nodejoin did not register depends on this one",
						Detail:  fmt.Sprintf("service %s runs and depends on %s", d, name),
						Remedy:  "stop and unregister it, or remove its dependency; then leave again"}
				}
			}
			pods, err := podsReason(ctx, r, e, svc, cri)
			if err != nil {
				return steps.Change{}, "", err
			}
			reason := strings.TrimSuffix("it is "+string(svc.State)+"; "+pods, "; ")
			return steps.Change{Action: steps.ActionDelete, Reason: reason}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, e *steps.Env) error {
			if err := haltService(ctx, h, e, name, cri); err != nil {
				return err
			}
			if err := h.DeleteService(ctx, name); err != nil && !errors.Is(err, host.ErrMarkedDeleted) {
				return err
			}
			delete(e.Record.Fingerprints, name)
			delete(e.Record.Starts, name)
			delete(e.Record.Stopped, name)
			// A service that others hold open is gone when they close it.
			return wait.Until(ctx, lookMost, func() (bool, error) {
				_, err := h.Service(ctx, name)
				if errors.Is(err, fs.ErrNotExist) {
					return true, nil
				}
				return false, err
			})
		},
	}, nil
}

// haltService ends the pods of a service, if it serves a CRI, stops it with those that depend on it, and ends what is
// left of its pods.
func haltService(ctx context.Context, h host.Host, e *steps.Env, name, cri string) error {
	if err := endPods(ctx, h, e, name, cri); err != nil {
		return err
	}
	if err := stopService(ctx, h, e, name); err != nil {
		return err
	}
	return endStranded(ctx, h, e, cri)
}

// stopAhead is Undo.Halt of a service.
func stopAhead(key record.Key, claim record.Claim) steps.Undoing {
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			svc, err := r.Service(ctx, key.Name)
			if errors.Is(err, fs.ErrNotExist) || err == nil && svc.State == host.ServiceStopped {
				return steps.Change{}, "", nil
			}
			return steps.Change{Action: steps.ActionUpdate,
				Reason: "the plan no longer has it; it stops before its successor is used"}, "", err
		},
		Apply: func(ctx context.Context, h host.Host, e *steps.Env) error {
			return haltService(ctx, h, e, key.Name, claim.Detail)
		},
	}
}

// serviceNow is how a service is registered, whether it runs or not.
func serviceNow(ctx context.Context, r host.Reader, _ *steps.Env, key record.Key, _ record.Claim) (any, error) {
	svc, err := r.Service(ctx, key.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return normal(svc.ServiceConfig), err
}

// undoMade removes what a program of ours has made, with everything in it. Links are not
// followed; what is mounted there is unmounted and stays as it is.
func undoMade(key record.Key, claim record.Claim) (steps.Undoing, error) {
	path := key.Name
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
			there, err := host.Exists(ctx, r, path)
			if err != nil || !there {
				return steps.Change{}, "", err
			}
			theirs, err := backupRestored(ctx, r, e, path)
			switch {
			case err != nil || theirs:
				return steps.Change{}, "", err
			case claim.Existed:
				return steps.Change{}, "it was there before nodejoin", nil
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, e *steps.Env) error {
			// A volume that a kubelet has left mounted must not be emptied.
			mounts, err := h.Mounts(ctx, path)
			if err != nil {
				return err
			}
			for _, at := range slices.Backward(mounts) {
				if err := steps.InUse(h.Unmount(ctx, at)); err != nil {
					return err
				}
			}
			return steps.RemoveTree(ctx, h, e.Facts.OS, path)
		},
	}, nil
}

// removesProgramData is Undo.Removes of what a program makes.
func removesProgramData(e *steps.Env, name, path string) steps.Removal {
	if host.Within(e.Facts.OS, name, path) {
		return steps.RemovesTree
	}
	return steps.RemovesNothing
}
