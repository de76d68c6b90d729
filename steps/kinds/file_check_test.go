package kinds_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// TestFileCheck: a program sees the new content before the file has it. What it refuses leaves the file as it was,
// the error has what it printed, unless that is secret, and nothing of the check stays.
func TestFileCheck(t *testing.T) {
	box := t.TempDir()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: box, OS: "windows", Hostname: "win", IP: "192.0.2.21"})
	stepstest.Must(t, err)
	const config, copied = `C:\c\config.toml`, `C:\ProgramData\nodejoin\check\config.toml`
	file := func(content string, sensitive bool) steps.Spec {
		return stepstest.Spec("file", "config", &kinds.File{Path: config, Content: content, Sensitive: sensitive,
			CheckedBy: []string{`C:\c\containerd.exe`, "--config", kinds.CheckedFile, "config", "dump"}})
	}
	program := stepstest.Spec("file", "exe", &kinds.File{Path: `C:\c\containerd.exe`, Content: "c"})
	stepstest.Applied(t, h, stepstest.Memory{}, []steps.Spec{program, file("good", false)})
	stepstest.Settled(t, h, stepstest.Memory{}, []steps.Spec{program, file("good", false)})

	broken := []byte(`{"containerd.exe":"exit 3"}`)
	stepstest.Must(t, os.WriteFile(filepath.Join(box, ".sandbox", "broken.json"), broken, 0o600))
	for _, sensitive := range []bool{false, true} {
		r := stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{file("bad", sensitive)})
		var e *steps.Error
		if !errors.As(r.Err, &e) || !strings.Contains(e.Detail, "(exit code 3)") ||
			strings.Contains(e.Detail, "--config "+copied+" config dump") == sensitive {
			t.Errorf("sensitive %v: %v: %+v", sensitive, r.Err, e)
		}
	}
	if have := stepstest.Text(t, h, config); have != "good" {
		t.Errorf("the file has %q", have)
	}
	if _, err := h.Stat(t.Context(), host.Dir("windows", copied)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the check: %v", err)
	}
	stepstest.Settled(t, h, stepstest.Memory{}, []steps.Spec{program, file("good", false)})
}
