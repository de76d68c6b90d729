//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// notedDir holds an empty file for each note; /run is empty when a machine has booted
// (hier(7)).
const notedDir = "/run/nodejoin/reboot"

// Feature is host.ErrUnsupported.
func (h *Host) Feature(ctx context.Context, name string) (host.FeatureState, error) {
	return "", noFeatures(ctx, "read feature", name)
}

// EnableFeature is host.ErrUnsupported.
func (h *Host) EnableFeature(ctx context.Context, name string) error {
	return noFeatures(ctx, "enable feature", name)
}

// DisableFeature is host.ErrUnsupported.
func (h *Host) DisableFeature(ctx context.Context, name string) error {
	return noFeatures(ctx, "disable feature", name)
}

func noFeatures(ctx context.Context, op, name string) error {
	if ctx.Err() != nil {
		return failed(op, name, context.Cause(ctx))
	}
	return failed(op, name, host.ErrUnsupported)
}

// RebootNoted lists the notes.
func (h *Host) RebootNoted(ctx context.Context) ([]string, error) {
	const op = "read what needs a reboot of"
	if ctx.Err() != nil {
		return nil, failed(op, "the machine", context.Cause(ctx))
	}
	list, err := os.ReadDir(notedDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(op, "the machine", err)
	}
	var out []string
	for _, e := range list {
		what, err := url.PathUnescape(e.Name())
		if err != nil {
			return nil, failed(op, "the machine", err)
		}
		out = append(out, what)
	}
	return out, nil
}

// NoteReboot makes a note.
func (h *Host) NoteReboot(ctx context.Context, what string) error {
	const op = "note a reboot for"
	if ctx.Err() != nil {
		return failed(op, what, context.Cause(ctx))
	}
	err := os.MkdirAll(notedDir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(notedDir, url.PathEscape(what)), nil, 0o644)
	}
	return failed(op, what, err)
}

// rebootSignal asks systemd, as process 1, for a reboot: SIGRTMIN+5, counted from the
// SIGRTMIN of the C library (systemd(1), "Signals"; signal(7)).
const rebootSignal = unix.Signal(34 + 5)

// Reboot asks systemd where it is process 1, and else the kernel itself.
func (h *Host) Reboot(ctx context.Context) error {
	const op = "reboot"
	if ctx.Err() != nil {
		return failed(op, "the machine", context.Cause(ctx))
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil { // sd_booted(3)
		return failed(op, "the machine", unix.Kill(1, rebootSignal))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return failed(op, "the machine", fmt.Errorf("what is process 1? %w", err))
	}
	unix.Sync()
	return failed(op, "the machine", unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART))
}
