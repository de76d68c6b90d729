package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// The programs of a node, by base name without ".exe".
const (
	containerd = "containerd"
	dockerd    = "dockerd"
	kubelet    = "kubelet"
	flanneld   = "flanneld"
	kubeProxy  = "kube-proxy"
	csiProxy   = "csi-proxy"
	exporter   = "windows_exporter"
)

// exited is the error of a program that could not do its work.
type exited struct {
	code   int
	reason string
}

func (e *exited) Error() string { return fmt.Sprintf("exit code %d: %s", e.code, e.reason) }

func exit(format string, args ...any) error { return &exited{1, fmt.Sprintf(format, args...)} }

// program is a simulated program within a command, with its own arguments.
type program struct {
	name string
	path string
	args []string
	env  []string
}

// program finds the simulated program of a command: the last element that is one, so a wrapper before it does
// not count.
func (h *Host) program(command, env []string) (program, bool) {
	for i := len(command) - 1; i >= 0; i-- {
		name := strings.TrimSuffix(h.base(command[i]), ".exe")
		switch name {
		case containerd, dockerd, kubelet, flanneld, kubeProxy, csiProxy, exporter:
			if h.absolute(command[i]) {
				return program{name, command[i], command[i+1:], env}, true
			}
		}
	}
	return program{}, false
}

// stamp matches a version in the text of a stand-in program.
var stamp = regexp.MustCompile(`\bv[0-9]+\.[0-9]+\.[0-9]+\b`)

// stampOf returns the version that a stand-in program has at the start of its text, "v1.35.4"; "" if it has
// none.
func (h *Host) stampOf(path string) (string, error) {
	head, err := h.head(path)
	return stamp.FindString(head), err
}

// head returns the first bytes of a program file; "" if there is none.
func (h *Host) head(path string) (string, error) {
	at, err := h.real(path)
	if err != nil {
		return "", err
	}
	f, err := os.Open(at)
	if errors.Is(absent(err), fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	return string(head[:n]), nil
}

// flag returns the value of -name or --name, in either form; "" if it is not given.
func (p program) flag(name string) string {
	for i, a := range p.args {
		if !strings.HasPrefix(a, "-") {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case key != name:
		case ok:
			return value
		case i+1 < len(p.args):
			return p.args[i+1]
		}
	}
	return ""
}

func (p program) environ(name string) string {
	for _, e := range p.env {
		if k, v, _ := strings.Cut(e, "="); strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

func (h *Host) nodeName(p program) string {
	return strings.ToLower(or(p.flag("hostname-override"), h.cfg.Hostname))
}

// read returns the content of a file of the machine.
func (h *Host) read(path string) ([]byte, error) {
	at, err := h.real(path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(at)
}

// write writes a file of a program. The machine's lock is held.
func (h *Host) write(ctx context.Context, s *state, path, text string, access host.Access) error {
	tmp, err := h.prepare(ctx, path, strings.NewReader(text), "")
	if err != nil {
		return err
	}
	return h.putInPlace(s, tmp, path, access)
}

// refusal turns an answer of the API server into the exit of a program. An error that is not an answer is
// returned unchanged.
func refusal(err error) error {
	if errors.Is(err, kube.ErrUnauthorized) || errors.Is(err, kube.ErrForbidden) ||
		errors.Is(err, kube.ErrUnreachable) {
		return exit("%v", err)
	}
	return err
}
