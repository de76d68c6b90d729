package kinds_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/linux"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// toolDir names the folder of a process of TestReplacesItself, and toolWaits has it wait to be killed.
const (
	toolDir   = "NODEJOIN_TEST_TOOL_DIR"
	toolWaits = "NODEJOIN_TEST_TOOL_WAITS"
)

// TestReplacesItself: on a real machine, a process replaces the program that it runs from and goes on. Another process
// of that program is killed.
func TestReplacesItself(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the folders of nodejoin are root's")
	}
	if dir := os.Getenv(toolDir); dir != "" {
		replaceTool(t, filepath.Join(dir, "tool"), filepath.Join(dir, "data"))
		return
	}
	dir := t.TempDir()
	tool := filepath.Join(dir, "tool")
	self, err := os.Executable()
	stepstest.Must(t, err)
	program, err := os.ReadFile(self)
	stepstest.Must(t, err)
	stepstest.Must(t, os.WriteFile(tool, program, 0o755))
	run := func(env ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), tool, "-test.run=^TestReplacesItself$")
		c.Env = append(append(os.Environ(), toolDir+"="+dir), env...)
		return c
	}
	other := run(toolWaits + "=1")
	in, err := other.StdinPipe()
	stepstest.Must(t, err)
	out, err := other.StdoutPipe()
	stepstest.Must(t, err)
	stepstest.Must(t, other.Start())
	defer func() { _ = in.Close() }()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // it waits
		t.Fatal(err)
	}
	if text, err := run().CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	if err := other.Wait(); err == nil || other.ProcessState.ExitCode() != -1 {
		t.Errorf("the other process was not killed: %v", err)
	}
	text, err := os.ReadFile(tool)
	if err != nil || string(text) != "two" {
		t.Errorf("the program has %d bytes, %v", len(text), err)
	}
	if old, err := os.Stat(host.OldName(tool)); err != nil || old.Size() != int64(len(program)) {
		t.Errorf("the old program: %v", err)
	}
}

// replaceTool replaces the program of this process, or waits.
func replaceTool(t *testing.T, tool, data string) {
	t.Helper()
	if os.Getenv(toolWaits) != "" {
		_, err := os.Stdout.WriteString("w")
		stepstest.Must(t, err)
		_, err = io.Copy(io.Discard, os.Stdin)
		stepstest.Must(t, err)
		return
	}
	h, err := linux.New(linux.Options{DataDir: data, EnvFile: data + ".env"})
	stepstest.Must(t, err)
	art := stepstest.Memory{"http://m/2": []byte("two")}
	list := []steps.Spec{stepstest.Spec("binary", "tool", &kinds.Binary{Path: tool, Apart: true,
		Source: steps.Source{URL: "http://m/2", SHA256: stepstest.Hex256(art["http://m/2"])}})}
	stepstest.Applied(t, h, art, list)
	if _, err := h.Stat(t.Context(), host.TempName(tool)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a temporary file stays: %v", err)
	}
}
