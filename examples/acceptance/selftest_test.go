package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/mirror"
)

// TestSelfTest: a machine tests itself over SSH, behind a PowerShell that prints the output of its profile first.
// Afterwards the machine is as it was before. It answers as this project expects of Windows, except for what Wine
// cannot do.
func TestSelfTest(t *testing.T) {
	ctx, cancel := bounded(t, 12*time.Minute)
	defer cancel()
	b := newBed(ctx, t, nil)
	known := filepath.Join(b.dir, "known_hosts")
	if err := errors.Join(b.host.SetDefaultShell(ctx, `C:\windows\system32\pwsh.exe`),
		os.WriteFile(known, []byte(b.host.KnownHosts(b.host.Port())), 0o600)); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	text, code := released(t).output(ctx, t, "doctor", "--self-test", "--yes-change-this-machine", "-o", out,
		"--var", "user="+b.host.User, "--var", "key="+b.host.Identity, "--var", "known_hosts="+known,
		"--var", fmt.Sprintf("port=%d", b.host.Port()), ".github/windows/self.join.hcl")
	files, _ := filepath.Glob(filepath.Join(out, "*.json"))
	if len(files) != 1 {
		t.Fatalf("exit code %d, files %v:\n%s", code, files, text)
	}
	t.Log(text)
	var report struct {
		Build, Language string
		AsBefore        bool `json:"as_before"`
		Differs         []string
		Results         []struct{ Area, Name, Outcome, Seen string }
	}
	data, err := os.ReadFile(files[0])
	if err := errors.Join(err, json.Unmarshal(data, &report)); err != nil {
		t.Fatal(err)
	}
	if !report.AsBefore || report.Build != "20348.4095" || report.Language != "en-US" {
		t.Errorf("build %s, language %s, unchanged %v, differences %q", report.Build, report.Language,
			report.AsBefore, report.Differs)
	}
	wine := map[string]bool{ // of what it does otherwise
		"a network logon needs SeRemoteShutdownPrivilege for a reboot, another logon does not": true, // it has no groups
	}
	seen := map[string]string{}
	for _, r := range report.Results {
		seen[r.Name] = r.Outcome
		if r.Outcome == "otherwise" && !wine[r.Name] {
			t.Errorf("%s: %s: %s", r.Area, r.Name, r.Seen)
		}
	}
	for _, name := range []string{"output goes through a pipe of 4096 bytes", "some services of others cannot be read",
		"a rule of the firewall is added", "the event log takes an entry", "the shutdown is aborted",
		"the state of the feature Containers is known", "a port is reserved", "the networks of HNS are listed",
		"it runs", "it has stopped"} {
		if seen[name] != "as expected" {
			t.Errorf("%s: %q", name, seen[name])
		}
	}
	if !strings.Contains(string(data), "pwsh.exe") {
		t.Error("the default shell is not in the report")
	}
	t.Run("realjoin", func(t *testing.T) { b.wantRealJoin(ctx, t, known) })
}

// wantRealJoin runs the program that joins real machines in the workflows, on the machine of the bed: the Node joins
// behind PowerShell, its guard restores the pods' network after HNS has lost it, and the Node leaves.
func (b *bed) wantRealJoin(ctx context.Context, t *testing.T, known string) {
	set, programs, evidence := componentSet(t), t.TempDir(), t.TempDir()
	_, artifacts, err := mirror.Make(ctx, set, "windows")
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for name, a := range artifacts {
		digests[name] = a.SHA256
	}
	text, err := json.Marshal(digests)
	lost := filepath.Join(t.TempDir(), "lost")
	if err := errors.Join(err, os.WriteFile(filepath.Join(programs, components.ArtifactsFile), text, 0o644),
		os.Symlink(set.Bin(""), filepath.Join(programs, "bin")),
		os.Symlink(filepath.Join(set.Dir, "mirror"), filepath.Join(programs, "mirror")),
		os.Symlink(string(released(t)), filepath.Join(programs, "nodejoin")), syscall.Mkfifo(lost, 0o600)); err != nil {
		t.Fatal(err)
	}
	realjoin := filepath.Join(programs, "realjoin")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", realjoin, "./realjoin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	go func() {
		if _, err := os.ReadFile(lost); err == nil { // somebody has written to it
			b.network.Reset(2 * time.Second)
		}
	}()
	cmd := exec.CommandContext(ctx, realjoin, "-programs", programs, "-address", "127.0.0.1",
		"-port", strconv.Itoa(b.host.Port()), "-user", b.host.User, "-identity", b.host.Identity, "-known-hosts", known,
		"-evidence", evidence, "-restart-hns", "echo now > "+lost)
	cmd.Dir, cmd.Env = repository(t), environment(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	noSecret(t, "realjoin", out)
	files, _ := filepath.Glob(filepath.Join(evidence, "20348.4095-en-US-win-1-join.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, files of evidence %v\n%s", err, files, out)
	}
	t.Log(tail(string(out)))
	data, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(data), "after a restart of HNS the node is in order again") ||
		strings.Contains(string(data), `"otherwise"`) {
		t.Errorf("%v\n%s", err, data)
	}
}
