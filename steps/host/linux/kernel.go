//go:build linux

package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// sysctlName is a parameter's name with dots; an element may have the characters of network interface
// names, except a dot.
var sysctlName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_:@+-]+)+$`)

// sysctlPath is where the kernel shows a parameter (proc_sys(5)).
func sysctlPath(name string) (string, error) {
	if !sysctlName.MatchString(name) {
		return "", fmt.Errorf("%w: %q is not a name of a kernel parameter", fs.ErrInvalid, name)
	}
	return "/proc/sys/" + strings.ReplaceAll(name, ".", "/"), nil
}

// Sysctl reads a kernel parameter.
func (h *Host) Sysctl(ctx context.Context, name string) (string, error) {
	const op = "read sysctl"
	if ctx.Err() != nil {
		return "", failed(op, name, context.Cause(ctx))
	}
	path, err := sysctlPath(name)
	if err != nil {
		return "", failed(op, name, err)
	}
	raw, err := os.ReadFile(path)
	return strings.Join(strings.Fields(string(raw)), " "), failed(op, name, err)
}

// SetSysctl sets a kernel parameter until the next boot.
func (h *Host) SetSysctl(ctx context.Context, name, value string) error {
	const op = "set sysctl"
	if ctx.Err() != nil {
		return failed(op, name, context.Cause(ctx))
	}
	path, err := sysctlPath(name)
	if err != nil {
		return failed(op, name, err)
	}
	if strings.ContainsAny(value, "\x00\n") {
		return failed(op, name, fmt.Errorf("%w: a value is one line", fs.ErrInvalid))
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0) // never made: the kernel has it or has not
	if err != nil {
		return failed(op, name, err)
	}
	_, err = f.WriteString(value + "\n") // one write: the kernel takes it as a whole
	return failed(op, name, joined(err, f.Close()))
}

var moduleName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)

// moduleTraces are files that show that a module works, for modules without parameters and version, which
// have no folder in /sys/module when built in.
var moduleTraces = map[string]string{
	"br_netfilter": "/proc/sys/net/bridge/bridge-nf-call-iptables", // net/bridge/br_netfilter_hooks.c
}

// KernelModule reports how the running kernel has a module: it is in /proc/modules, or in modules.builtin
// of the kernel (kmod's list, Documentation/kbuild/kbuild.rst), or shows itself in /sys/module or by its
// trace without being loaded.
func (h *Host) KernelModule(ctx context.Context, name string) (host.KernelModule, error) {
	const op = "look for kernel module"
	if ctx.Err() != nil {
		return "", failed(op, name, context.Cause(ctx))
	}
	if !moduleName.MatchString(name) {
		return "", failed(op, name, fmt.Errorf("%w: %q is not a name of a module", fs.ErrInvalid, name))
	}
	name = strings.ReplaceAll(name, "-", "_") // the kernel takes the two for one
	loaded, err := lineWith("/proc/modules", func(line string) bool {
		have, _, _ := strings.Cut(line, " ")
		return have == name
	})
	if err != nil || loaded {
		return host.ModuleLoaded, failed(op, name, err)
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", failed(op, name, err)
	}
	builtin, err := lineWith(filepath.Join("/lib/modules", unix.ByteSliceToString(u.Release[:]), "modules.builtin"),
		func(line string) bool {
			base := strings.TrimSuffix(filepath.Base(strings.TrimSpace(line)), ".ko")
			return strings.ReplaceAll(base, "-", "_") == name
		})
	if err != nil || builtin {
		return host.ModuleBuiltIn, failed(op, name, err)
	}
	for _, trace := range []string{"/sys/module/" + name, moduleTraces[name]} {
		if trace == "" {
			continue
		}
		if _, err := os.Stat(trace); err == nil {
			return host.ModuleBuiltIn, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", failed(op, name, err)
		}
	}
	return "", failed(op, name, fs.ErrNotExist)
}

// lineWith reports whether a file has a line that matches; a missing file has none. A
// kernel without loadable modules has no /proc/modules.
func lineWith(file string, match func(line string) bool) (bool, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for line := range strings.Lines(string(raw)) {
		if match(line) {
			return true, nil
		}
	}
	return false, err
}

// LoadKernelModule runs modprobe(8), which respects the administrator's settings in /etc/modprobe.d. Only
// its exit status counts; its output is for people.
func (h *Host) LoadKernelModule(ctx context.Context, name string) error {
	const op = "load kernel module"
	_, err := h.KernelModule(ctx, name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tool := ""
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"} {
		if _, err := os.Stat(dir + "/modprobe"); err == nil {
			tool = dir + "/modprobe"
			break
		}
	}
	if tool == "" {
		return failed(op, name, errors.New("the machine has no modprobe, and its kernel does not show the module"))
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, tool, "--", name)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, "/"
	if err := cmd.Run(); err != nil {
		return failed(op, name, fmt.Errorf("modprobe: %w: %s", err, strings.TrimSpace(out.String())))
	}
	return nil
}
