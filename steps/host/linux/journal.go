//go:build linux

package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"nodejoin/steps/host"
)

// journalLines is how much of a service's output the journal is asked for.
const journalLines = "2000"

// journalOf returns the service whose log path is. Under systemd a service's output is in the journal, and
// the log file of the other manager does not exist: reading it reads the end of the journal.
func (h *Host) journalOf(path string) (name string, ok bool) {
	if _, under := h.services.(systemd); !under || filepath.Dir(path) != h.servicesDir() {
		return "", false
	}
	name, ok = strings.CutSuffix(filepath.Base(path), logExt)
	return name, ok && checkUnit(name) == nil
}

// journal is the end of a service's output, unchanged; fs.ErrNotExist if there is none.
func journal(ctx context.Context, name string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "journalctl", "--unit="+name+unitEnding, "--lines="+journalLines, "--output=cat",
		"--quiet", "--no-pager")
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, fmt.Errorf("journalctl: %w: %s", err, strings.TrimSpace(problem.String()))
	case len(out) == 0:
		return nil, fs.ErrNotExist
	}
	return out, nil
}

func openJournal(ctx context.Context, name string) (io.ReadCloser, error) {
	text, err := journal(ctx, name)
	return io.NopCloser(bytes.NewReader(text)), err
}

func statJournal(ctx context.Context, path, name string) (host.FileInfo, error) {
	text, err := journal(ctx, name)
	return host.FileInfo{Name: filepath.Base(path), Size: int64(len(text)), Access: host.AccessPrivate}, err
}
