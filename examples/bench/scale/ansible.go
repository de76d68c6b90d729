//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"nodejoin/examples/internal/farhosts"
)

// mitogen is where Debian's package ansible-mitogen has its strategies.
const mitogen = "/usr/lib/python3/dist-packages/ansible_mitogen/plugins/strategy"

// rowsOfAnsible prints rows of the playbook for the same hosts, without changes.
func (s scale) rowsOfAnsible(ctx context.Context, bed *farhosts.Bed) error {
	if _, err := s.playbook(ctx, bed, "mitogen_linear"); err != nil { // its changes
		return err
	}
	for _, a := range []struct{ strategy, name string }{
		{"mitogen_linear", "Ansible with mitogen"}, {"linear", "Ansible"},
	}[:map[string]int{"mitogen": 1, "all": 2}[s.ansible]] {
		u, err := s.playbook(ctx, bed, a.strategy)
		if err != nil {
			return err
		}
		s.row(a.name+", no changes", len(bed.Hosts), len(bed.Hosts), u)
	}
	return nil
}

// playbook runs the playbook over all hosts.
func (s scale) playbook(ctx context.Context, bed *farhosts.Bed, strategy string) (u usage, err error) {
	dir, err := os.MkdirTemp(s.dir, "ansible-")
	if err != nil {
		return u, err
	}
	var inventory strings.Builder
	for _, h := range bed.Hosts {
		fmt.Fprintf(&inventory, "%s ansible_host=%s ansible_port=%d node_name=%[1]s node_ip=10.0.0.1 "+
			"pod_cidr=10.128.0.0/24\n", h.Name, h.Address, h.Port)
	}
	file := filepath.Join(dir, "hosts.ini")
	vars := filepath.Join(dir, "vars.json")
	text, err := s.variables()
	if err := errors.Join(err, os.WriteFile(file, []byte(inventory.String()), 0o600),
		os.WriteFile(vars, text, 0o600)); err != nil {
		return u, err
	}
	cmd := exec.CommandContext(ctx, "ansible-playbook", "--inventory", file, "--extra-vars", "@"+vars, "--extra-vars",
		"repo="+s.mirror, "--private-key", bed.Key(), "--user", "root", "--forks", strconv.Itoa(min(len(bed.Hosts), 50)),
		filepath.Join(s.plan, "ansible.yml"))
	cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+dir, "ANSIBLE_STRATEGY="+strategy, "ANSIBLE_STRATEGY_PLUGINS="+mitogen,
		"ANSIBLE_PIPELINING=true", "ANSIBLE_SSH_ARGS=-C -o ControlMaster=auto -o ControlPersist=60s -o UserKnownHostsFile="+
			bed.KnownHosts())
	return measure(cmd, ofTree)
}

// ofTree is what a process and those that it has started have, in MB; what they share counts once.
func ofTree(pid int) float64 {
	var kib float64
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				_, _ = fmt.Sscan(rest, &kib)
			}
		}
	}
	mb := kib * 1024 / 1e6
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return mb // it has ended
	}
	for _, child := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			mb += ofTree(pid)
		}
	}
	return mb
}
