//go:build windows

package windows

import (
	"context"
	"io/fs"

	"nodejoin/steps/host"
	"nodejoin/steps/host/program"
)

// RunProgram runs a program to its end.
func (h *Host) RunProgram(ctx context.Context, p host.Program) (exitCode int, err error) {
	const op = "run program"
	if len(p.Command) == 0 {
		return 0, failed(op, "", fs.ErrInvalid)
	}
	path := p.Command[0]
	if err := begin(ctx, op, path); err != nil {
		return 0, err
	}
	exitCode, err = program.Run(ctx, h, p)
	return exitCode, failed(op, path, err)
}
