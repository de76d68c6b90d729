//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"nodejoin/examples/internal/farhosts"
)

// usage is what a run took.
type usage struct {
	took, cpu time.Duration
	memory    float64 // largest resident set, MB
	said      string  // about --parallel
}

// chosen is what nodejoin says about --parallel auto.
var chosen = regexp.MustCompile(`\d+ hosts at once[^\n]*`)

// apply runs nodejoin by run.sh.
func (s scale) apply(ctx context.Context, bed *farhosts.Bed) (u usage, err error) {
	run, err := os.MkdirTemp(s.dir, "run-")
	if err != nil {
		return u, err
	}
	vars := filepath.Join(run, "harness.json")
	text, err := s.variables()
	if err != nil {
		return u, err
	}
	if err := os.WriteFile(vars, text, 0o600); err != nil {
		return u, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.plan, "run.sh"))
	cmd.Env = append(os.Environ(), append(bed.Env(), "NODEJOIN="+s.program, "HP_RUN="+run, "HP_VARS="+vars,
		"HP_FORKS="+s.parallel, "HP_REPO="+s.mirror)...)
	return measure(cmd, largest)
}

// variables are those of run.sh and of the playbook.
func (s scale) variables() ([]byte, error) { return json.MarshalIndent(s.archives, "", " ") }

// measure runs a command; memory is what its process has, in MB.
func measure(cmd *exec.Cmd, memory func(pid int) float64) (u usage, err error) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return u, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		select {
		case err = <-ended:
			running = false
		case <-tick.C:
			u.memory = max(u.memory, memory(cmd.Process.Pid))
		}
	}
	u.took = time.Since(began)
	out := said.Bytes()
	if err != nil {
		return u, fmt.Errorf("%s: %w\n%s", cmd.Args[0], err, out[max(0, len(out)-4000):])
	}
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	u.said = string(chosen.Find(out))
	return u, nil
}

// largest is the largest resident set that a process has had, in MB; 0 if it has ended. What the system says of a
// process that has ended counts that of its parent too.
func largest(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	var kib float64
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &kib)
		}
	}
	return kib * 1024 / 1e6
}

// archives are the variables of run.sh: what the plan's templates want beside the hosts, and archives.
type archives map[string]any

// makeArchives writes four small archives.
func makeArchives(dir string) (archives, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	vars := archives{"api_server": "https://10.0.0.10:6443", "cluster_dns": "10.96.0.10", "cluster_cidr": "10.128.0.0/9",
		"service_cidr": "10.96.0.0/12", "pause_image": "pause:3.10", "bootstrap_token": "none", "kube_version": "1.36.3"}
	var list []any
	for _, name := range []string{"crictl", "cni-plugins", "containerd", "kubernetes-node"} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		t := tar.NewWriter(z)
		err := t.WriteHeader(&tar.Header{Name: name + "/bin/" + name, Mode: 0o755, Size: int64(len(name))})
		if err == nil {
			_, err = t.Write([]byte(name))
		}
		err = errors.Join(err, t.Close(), z.Close())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".tar.gz"), b.Bytes(), 0o644)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, map[string]any{"name": name, "sha256": fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))})
	}
	vars["archives"] = list
	return vars, nil
}
