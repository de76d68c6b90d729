package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/controlplane"
)

// plan is the one that the acceptance tests apply, too.
var plan = filepath.Join("examples", "windows-ssh")

// join is one run: a control plane, and a machine that joins it.
type join struct {
	options
	cluster *controlplane.Cluster
	dir     string // of keys, data and logs
	args    []string
	results []result
}

// newJoin starts the control plane. close must follow.
func newJoin(ctx context.Context, o options) (*join, error) {
	dir, err := os.MkdirTemp("", "realjoin")
	if err != nil {
		return nil, err
	}
	j := &join{options: o, dir: dir}
	began := time.Now()
	j.cluster, err = controlplane.Start(ctx, controlplane.Options{Components: components.New(o.programs, ""), Dir: dir,
		Address: o.address, Everywhere: true})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	fmt.Printf("control plane at %s after %v\n", j.cluster.URL, time.Since(began).Round(time.Second))
	if j.args, err = j.variables(); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func (j *join) close() error {
	j.cluster.Stop()
	return os.RemoveAll(j.dir)
}

// variables writes the values of the plan's variables, and returns the arguments that name them and the plan.
func (j *join) variables() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(j.programs, components.ArtifactsFile))
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	if err := json.Unmarshal(text, &digests); err != nil {
		return nil, err
	}
	text, err = json.Marshal(map[string]any{
		"api_server": j.cluster.URL, "ca_hash": j.cluster.CAHash, "kubeconfig": j.cluster.Kubeconfig,
		"hosts": map[string]string{j.name: j.host}, "port": j.port, "user": j.user,
		"identity": []string{j.identity}, "known_hosts": []string{j.knownHosts},
		"mirror": filepath.Join(j.programs, "mirror"), "sha256": digests,
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(j.dir, "run.joinvars.json")
	return []string{"--var-file", file, plan}, os.WriteFile(file, text, 0o600)
}

// nodejoin runs a command over the plan, shows what it prints, and returns it with its exit code.
func (j *join) nodejoin(ctx context.Context, args ...string) (out string, code int, err error) {
	name := "nodejoin"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return j.program(ctx, filepath.Join(j.programs, name), append(args, j.args...)...)
}

// command runs a command line of the flags.
func (j *join) command(ctx context.Context, line string) error {
	_, code, err := j.program(ctx, j.shell, "-c", line)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, line)
	}
	return err
}

func (j *join) program(ctx context.Context, name string, args ...string) (out string, code int, err error) {
	fmt.Printf("\n$ %s %s\n", filepath.Base(name), strings.Join(args, " "))
	var seen bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout = io.MultiWriter(os.Stdout, &seen)
	cmd.Stderr = cmd.Stdout
	err = cmd.Run()
	if ctx.Err() != nil {
		return seen.String(), -1, context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return seen.String(), exit.ExitCode(), nil
	}
	return seen.String(), 0, err
}

// until asks once a second until there is no error, or says after a time what the last one was.
func until(ctx context.Context, bound time.Duration, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("not within %v", bound))
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
