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

// compiling returns the compiler's flags. Without inlining an agent is a seventh smaller. That of Linux inlines in the
// packages where a run spends its time: it is 2 % larger, packed 5 %, and a cold run takes a fifth less of its
// machine's processor time. Windows runs take as long as what they start and wait for.
func compiling(goos string) []string {
	flags := []string{"all=-l"}
	if goos != "linux" {
		return flags
	}
	for _, p := range []string{"bufio", "bytes", "context", "encoding/json", "fmt", "internal/...", "io", "os",
		"path/filepath", "reflect", "runtime", "slices", "sort", "strconv", "strings", "sync", "sync/atomic", "syscall",
		"time", "unicode/utf8", "github.com/klauspost/compress/..."} {
		flags = append(flags, p+"=")
	}
	return flags
}

// agent builds and packs the agent of a target.
func agent(out, target, tags string) error {
	goos, arch, _ := strings.Cut(target, "/")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	built := filepath.Join(out, "agent")
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-tags", tags, "-o", built}
	for _, flags := range compiling(goos) {
		args = append(args, "-gcflags", flags)
	}
	cmd := exec.Command("go", append(args, "nodejoin/cmd/nodejoin-agent")...)
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
