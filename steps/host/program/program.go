// Package program runs a program to its end, for the hosts of Linux and Windows alike.
package program

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"nodejoin/steps/host"
	"nodejoin/steps/supervise"
)

// Files writes the log of a program.
type Files interface {
	WriteFile(ctx context.Context, path string, content io.Reader, opt host.WriteOptions) error
}

// Run is RunProgram of a host; the path of the program was checked. A program that is
// not there is fs.ErrNotExist.
func Run(ctx context.Context, h Files, p host.Program) (exitCode int, err error) {
	_, err = os.Stat(p.Command[0])
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, err
	}
	if err := h.WriteFile(ctx, p.Log, strings.NewReader(""), host.WriteOptions{Access: host.AccessPrivate}); err != nil {
		return 0, err
	}
	log, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	exitCode, err = supervise.Once(ctx, p.Command, p.Env(os.Environ(), string(os.PathListSeparator)), log)
	return exitCode, errors.Join(err, log.Close())
}
