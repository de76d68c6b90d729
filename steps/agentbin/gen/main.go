// Command gen builds and packs the agents that a release embeds into steps/agentbin/bin. It
// runs in the folder of agentbin: `go generate ./steps/agentbin`, then
// `go build -tags embedagent ./cmd/nodejoin`.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"nodejoin/steps/agentbin"
)

func main() {
	out := flag.String("o", "bin", "folder of the packed agents")
	tags := flag.String("tags", "", "build tags of the agents; a release has none")
	targets := flag.String("targets", strings.Join(agentbin.Targets, " "), "os/arch of each agent")
	flag.Parse()
	if err := os.RemoveAll(*out); err != nil {
		fail(err)
	}
	for _, t := range strings.Fields(*targets) {
		if err := agent(*out, t, *tags); err != nil {
			fail(fmt.Errorf("build the agent for %s: %w", t, err))
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// agent builds and packs the agent of a target.
func agent(out, target, tags string) error {
	goos, arch, _ := strings.Cut(target, "/")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	built := filepath.Join(out, "agent")
	// Without inlining it is a seventh smaller, and none of its work is bound by the processor.
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-gcflags", "all=-l", "-ldflags", "-s -w",
		"-tags", tags, "-o", built, "nodejoin/cmd/nodejoin-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	b, err := os.ReadFile(built)
	if err != nil {
		return err
	}
	p, err := agentbin.Pack(agentbin.Carried(goos), b)
	if err != nil {
		return err
	}
	name := filepath.Join(out, goos+"-"+arch)
	return errors.Join(os.Remove(built), os.WriteFile(name+p.Form, p.Data, 0o644),
		os.WriteFile(name+".sha256", []byte(p.Digest), 0o644))
}
