package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"nodejoin/steps/host"
)

// RunProgram simulates a program that runs to completion: kubeadm, ctr and, for tests, a broken one ("exit 3", or
// "hang": it runs until it is killed). Any other does nothing.
func (h *Host) RunProgram(ctx context.Context, p host.Program) (exitCode int, err error) {
	const op = "run program"
	if len(p.Command) == 0 || !h.absolute(p.Command[0]) {
		return 0, failed(op, strings.Join(p.Command, " "),
			fmt.Errorf("%w: the command does not begin with the absolute path of a program", fs.ErrInvalid))
	}
	name, hangs := p.Command[0], false
	err = h.change(ctx, func(s *state) error {
		if !h.isFile(name) {
			return fs.ErrNotExist
		}
		broken, err := h.broken()
		if err != nil {
			return err
		}
		how, isBroken := broken[h.base(name)]
		var printed string
		switch {
		case how == "hang":
			hangs = true
		case isBroken:
			exitCode, printed = exitCodeOf(how), strings.Join(p.Command[1:], " ")+"\n"
		case strings.TrimSuffix(h.base(name), ".exe") == "kubeadm":
			printed, err = h.kubeadmJoin(ctx, s, program{name: "kubeadm", args: p.Command[1:]})
		case strings.TrimSuffix(h.base(name), ".exe") == "ctr":
			err = h.importImages(s, p.Command[1:])
		}
		if e, ok := errors.AsType[*exited](err); ok {
			exitCode, printed, err = e.code, e.reason+"\n", nil
		}
		if err != nil {
			return err
		}
		return h.write(ctx, s, p.Log, printed, host.AccessPrivate)
	})
	if err == nil && hangs {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	return exitCode, failed(op, name, err)
}
