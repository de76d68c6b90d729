package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// ends matches the text of a stand-in program that exits as soon as it is started.
var ends = regexp.MustCompile(`\bexits with ([0-9]+)\b`)

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
	if h.windows() && h.fold(svc.Command[0]) == h.fold(sshProgram) {
		return 0, h.launchSSH()
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
