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

// claims are the file and, where they are no service, the processes that run from it.
func (b *Binary) claims(e *steps.Env) []record.Key {
	out := []record.Key{b.thing(e.Facts.OS).Key}
	if b.Apart {
		out = append(out, processesPrefix.Of(b.Path))
	}
	return out
}

// claim notes what claims names.
func (b *Binary) claim(ctx context.Context, h host.Host, e *steps.Env) error {
	if err := claimFile(ctx, h, e, b.Path, false); err != nil || !b.Apart {
		return err
	}
	return e.Claim(ctx, h, record.New{Key: processesPrefix.Of(b.Path)})
}

// moveIn renames the verified file to its place.
func (b *Binary) moveIn(ctx context.Context, h host.Host, temp string) error {
	if b.Apart {
		err := h.Rename(ctx, temp, b.Path)
		if !errors.Is(err, host.ErrBusy) {
			return err
		}
		if err := outOfTheWay(ctx, h, b.Path); err != nil {
			return err
		}
	}
	return moveIn(ctx, h, temp, b.Path)
}

// outOfTheWay ends the processes of a program and renames its file, from which this process may run. Then the file
// stays until it is removed by who starts the program again.
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

// undoProcesses ends the processes of a program, and removes what a replacement has left of it. No service starts
// them any more, as services are undone before.
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
