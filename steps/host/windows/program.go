//go:build windows

package windows

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"nodejoin/steps/host"
	"nodejoin/steps/supervise"
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
	if _, err := os.Stat(path); err != nil {
		return 0, failed(op, path, err)
	}
	if err := h.WriteFile(ctx, p.Log, strings.NewReader(""), host.WriteOptions{Access: host.AccessPrivate}); err != nil {
		return 0, err
	}
	log, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 0, failed(op, path, err)
	}
	exitCode, err = supervise.Once(ctx, p.Command, p.Env(os.Environ(), ";"), log)
	return exitCode, failed(op, path, errors.Join(err, log.Close()))
}
