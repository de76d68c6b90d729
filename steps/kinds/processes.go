package kinds

import (
	"context"
	"errors"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// processesPrefix is that of the processes of a program that runs apart from services.
const processesPrefix record.Prefix = "processes"

// outOfTheWay ends the other processes of a program and moves its file out of the way. If this process runs from it,
// the file stays at host.OldName, and what starts the program next removes it.
func outOfTheWay(ctx context.Context, h host.Host, path string) error {
	old := host.OldName(path)
	for _, program := range []string{path, old} {
		if err := h.EndProcesses(ctx, program); err != nil {
			return err
		}
	}
	if err := h.Rename(ctx, path, old); err != nil {
		return err
	}
	err := h.Remove(ctx, old)
	if errors.Is(err, host.ErrBusy) {
		return nil
	}
	return err
}

// undoProcesses ends the processes of a program, and removes what a replacement has left of it. Services are undone
// before, so none starts them again.
func undoProcesses(key record.Key, _ record.Claim) (steps.Undoing, error) {
	path := key.Name
	old := host.OldName(path)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			running, err := r.Processes(ctx, path)
			if err != nil {
				return steps.Change{}, "", err
			}
			left, err := host.Exists(ctx, r, old)
			if err != nil || len(running) == 0 && !left {
				return steps.Change{}, "", err
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			for _, program := range []string{path, old} {
				if err := h.EndProcesses(ctx, program); err != nil {
					return err
				}
			}
			return steps.InUse(h.Remove(ctx, old))
		},
	}, nil
}
