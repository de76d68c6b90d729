//go:build linux

package linux

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// HostName reads the kernel's name, and that of the file that sets it at boot; without
// one the name at boot is not known here.
func (h *Host) HostName(ctx context.Context) (host.HostName, error) {
	const op, subject = "read", "name of the machine"
	if ctx.Err() != nil {
		return host.HostName{}, failed(op, subject, context.Cause(ctx))
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return host.HostName{}, failed(op, subject, err)
	}
	next, err := h.nameAtBoot()
	return host.HostName{Now: unix.ByteSliceToString(u.Nodename[:]), Next: next}, failed(op, subject, err)
}

// nameAtBoot is the first line of the file that holds one and is not a comment (hostname(5)).
func (h *Host) nameAtBoot() (string, error) {
	raw, err := os.ReadFile(h.nameFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line, err
		}
	}
	return "", err
}

// SetHostName sets the name at boot, then that of the running kernel. systemd-hostnamed
// reads both again when it is asked.
func (h *Host) SetHostName(ctx context.Context, name string) error {
	const op = "set host name"
	if ctx.Err() != nil {
		return failed(op, name, context.Cause(ctx))
	}
	if err := host.CheckHostName(name); err != nil {
		return failed(op, name, err)
	}
	next, err := h.nameAtBoot()
	if err == nil && next != name {
		err = writeFile(ctx, h.nameFile, strings.NewReader(name+"\n"), host.WriteOptions{})
	}
	if err == nil {
		err = unix.Sethostname([]byte(name))
	}
	if err != nil {
		return failed(op, name, err)
	}
	h.factsMu.Lock()
	defer h.factsMu.Unlock()
	if h.facts != nil {
		h.facts.Hostname = name
	}
	return nil
}
