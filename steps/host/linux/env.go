//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"nodejoin/steps/host"
)

// MachineEnv reads a variable of the machine's environment file.
func (h *Host) MachineEnv(ctx context.Context, name string) (string, error) {
	const op = "read environment"
	if ctx.Err() != nil {
		return "", failed(op, name, context.Cause(ctx))
	}
	lines, err := h.envLines()
	if err != nil {
		return "", failed(op, name, err)
	}
	for i := len(lines) - 1; i >= 0; i-- { // a later line counts
		if n, v, ok := assignment(lines[i]); ok && n == name {
			return v, nil
		}
	}
	return "", failed(op, name, fs.ErrNotExist)
}

// SetMachineEnv sets a variable. Other lines of the file stay as they are.
func (h *Host) SetMachineEnv(ctx context.Context, name, value string) error {
	const op = "set environment"
	if name == "" || strings.ContainsAny(name, "=#'\"\x00 \t\r\n") || strings.ContainsAny(value, "\x00\r\n") {
		return failed(op, name, fmt.Errorf("%w: not a variable that the file can hold", fs.ErrInvalid))
	}
	return failed(op, name, h.editEnv(ctx, name, name+"="+quote(value)))
}

// UnsetMachineEnv removes a variable.
func (h *Host) UnsetMachineEnv(ctx context.Context, name string) error {
	return failed("unset environment", name, h.editEnv(ctx, name, ""))
}

// editEnv puts line where the variable is set first, or at the end, and removes
// every other setting of it; an empty line removes all.
func (h *Host) editEnv(ctx context.Context, name, line string) error {
	return h.locked(ctx, func() error {
		lines, err := h.envLines()
		if err != nil {
			return err
		}
		var next []string
		changed := false
		for _, old := range lines {
			n, _, ok := assignment(old)
			switch {
			case !ok || n != name:
				next = append(next, old)
				continue
			case line != "":
				next = append(next, line)
			}
			changed = changed || old != line
			line = ""
		}
		if line != "" {
			next, changed = append(next, line), true
		}
		if !changed {
			return nil
		}
		access := host.AccessDefault
		if info, err := os.Stat(h.envFile); err == nil {
			access = accessOf(info.Mode())
		}
		text := ""
		if len(next) > 0 {
			text = strings.Join(next, "\n") + "\n"
		}
		return writeFile(ctx, h.envFile, strings.NewReader(text), host.WriteOptions{Access: access})
	})
}

// envLines are the lines of the environment file; a missing file has none.
func (h *Host) envLines() ([]string, error) {
	raw, err := os.ReadFile(h.envFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(raw) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n"), err
}

// assignment reads a line as pam_env(8) does: an optional "export ", NAME=value,
// the value perhaps in quotes.
func assignment(line string) (name, value string, ok bool) {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "#") {
		return "", "", false
	}
	name, value, ok = strings.Cut(strings.TrimPrefix(line, "export "), "=")
	return strings.TrimSpace(name), unquote(value), ok
}

// unquote takes one pair of quotes off.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// quote writes a value so that unquote returns it.
func quote(s string) string {
	if s != unquote(s) || strings.ContainsAny(s, " \t#") {
		return `"` + s + `"`
	}
	return s
}
