package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// ends matches the text of a stand-in program that exits as soon as it is started.
var ends = regexp.MustCompile(`\bexits with ([0-9]+)\b`)

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

// launch starts the programs of a service. A code other than 0 means that one of them exited at once; an error
// means that the machine could not answer.
func (h *Host) launch(ctx context.Context, s *state, svc *service) (code int, err error) {
	broken, err := h.broken()
	if err != nil {
		return 0, err
	}
	for _, p := range svc.Command {
		if !h.absolute(p) {
			continue
		}
		if how, ok := broken[h.base(p)]; ok {
			return exitCodeOf(how), nil
		}
		if h.windows() && strings.HasSuffix(strings.ToLower(p), ".exe") && !h.isFile(p) {
			return 1, nil // the wrapper cannot find its program
		}
	}
	p, ok := h.program(svc.Command, svc.Environment)
	if !ok {
		return 0, nil
	}
	if head, err := h.head(p.path); err != nil {
		return 0, err
	} else if m := ends.FindStringSubmatch(head); m != nil {
		return exitCodeOf("exit " + m[1]), nil
	}
	switch p.name {
	case kubelet:
		err = h.launchKubelet(ctx, s, p)
	case flanneld:
		err = h.launchFlanneld(ctx, s, p)
	case kubeProxy:
		err = h.launchKubeProxy(p)
	}
	if e, ok := errors.AsType[*exited](err); ok {
		return e.code, h.logExit(svc, e)
	}
	if err == nil && !h.windows() {
		s.makeInKernel(p.name)
	}
	return 0, err
}

// logExit records why a program exited: in .sandbox/NAME.log, and in the log file that the command of the
// service names, for kube-log-runner or nodejoin's supervisor.
func (h *Host) logExit(svc *service, e *exited) error {
	line := []byte(e.reason + "\n")
	if err := os.WriteFile(filepath.Join(h.cfg.Path, stateDir, svc.Name+".log"), line, 0o644); err != nil {
		return err
	}
	wrapper := program{args: svc.Command}
	log := cmp.Or(wrapper.flag("log-file"), wrapper.flag("log"))
	if log == "" {
		return nil
	}
	at, err := h.real(log)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no folder for it, so the real program could not write it either
	}
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Close())
}

// broken returns the broken programs of Config and of the file, by base name.
func (h *Host) broken() (map[string]string, error) {
	all := map[string]string{}
	raw, err := os.ReadFile(filepath.Join(h.cfg.Path, stateDir, "broken.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, fmt.Errorf("broken.json: %w", err)
		}
	}
	out := map[string]string{}
	for _, m := range []map[string]string{all, h.cfg.Broken} {
		for k, v := range m {
			out[h.fold(k)] = v
		}
	}
	return out, nil
}

// exitCodeOf parses "exit N". Anything else is 1.
func exitCodeOf(how string) int {
	rest, _ := strings.CutPrefix(how, "exit ")
	if n, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil && n != 0 {
		return n
	}
	return 1
}

// withdraw removes what exists only while a program runs.
func (h *Host) withdraw(ctx context.Context, svc *service) error {
	p, ok := h.program(svc.Ran, svc.Environment)
	if !ok || p.name != kubelet || h.cfg.ClusterDir == "" {
		return nil
	}
	c, err := OpenCluster(ctx, ClusterConfig{Dir: h.cfg.ClusterDir})
	if err != nil {
		return err
	}
	return c.lost(ctx, h.nodeName(p))
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
	if errors.Is(err, kube.ErrUnauthorized) || errors.Is(err, kube.ErrUnreachable) {
		return exit("%v", err)
	}
	return err
}
