//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"nodejoin/steps/host/hosttest"
)

// peakLimit is the most memory, in bytes, that a run over one machine may have, without the pages of its file.
const peakLimit = 16_000_000

// TestPeakMemory: a machine behind SSH costs the controller little memory. nodejoin, built as for a release,
// plans and applies a file there.
func TestPeakMemory(t *testing.T) {
	hosttest.Release(t)
	c := newChaos(t)
	program := filepath.Join(c.root, "nodejoin")
	// Not -trimpath: it builds its agent from the source that it was compiled from.
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h := newChaosHosts(t, c.root, 1)[0]
	plan := filepath.Join(c.root, "x.join.hcl")
	text := h.node("ssh1") + fmt.Sprintf("step \"file\" \"f\" {\n  on = node.ssh1\n  path = %q\n  content = \"x\"\n}\n",
		filepath.Join(h.root, "f"))
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{{"plan", plan}, {"plan", plan}, {"apply", "--auto-approve", plan}} {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = c.env
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		have, err := hosttest.PeakMemory(cmd)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out.Bytes())
		}
		if t.Logf("%s: %d bytes", args[0], have); i > 0 && have > peakLimit { // the first builds the agent
			t.Errorf("%s took %d bytes of memory, the limit is %d", args[0], have, peakLimit)
		}
	}
	h.repair()
}
