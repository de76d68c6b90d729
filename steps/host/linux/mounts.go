//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// Mounts are where file systems are mounted at path or below it, in the order of the
// mounts.
func (h *Host) Mounts(ctx context.Context, path string) ([]string, error) {
	const op = "list mounts"
	if err := begin(ctx, op, path); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path) // the kernel knows no links
	if errors.Is(absent(err), fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(op, path, err)
	}
	all, err := mountPoints("/proc/self/mountinfo")
	below := strings.TrimSuffix(real, "/") + "/"
	return slices.DeleteFunc(all, func(at string) bool { return at != real && !strings.HasPrefix(at, below) }),
		failed(op, path, err)
}

// Unmount takes off what was mounted last at path.
func (h *Host) Unmount(ctx context.Context, path string) error {
	const op = "unmount"
	if err := begin(ctx, op, path); err != nil {
		return err
	}
	err := ignoringEINTR(func() error { return unix.Unmount(path, unix.UMOUNT_NOFOLLOW) })
	switch {
	case errors.Is(err, unix.EBUSY):
		err = fmt.Errorf("%w: what is mounted there is in use", host.ErrBusy)
	case errors.Is(err, unix.EINVAL), errors.Is(absent(err), fs.ErrNotExist): // nothing is mounted there
		err = nil
	}
	return failed(op, path, err)
}

// mountPoints are where something is mounted, in the order of the mounts
// (proc_pid_mountinfo(5), field 5, with blanks and backslashes as octal numbers).
func mountPoints(file string) ([]string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			return nil, fmt.Errorf("%s: a line with %d fields", file, len(f))
		}
		out = append(out, unoctal(f[4]))
	}
	return out, nil
}

// unoctal replaces \ooo by the byte it stands for.
func unoctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
