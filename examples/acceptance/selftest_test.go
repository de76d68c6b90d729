package acceptance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSelfTest: a machine tests itself over SSH, behind a PowerShell that prints the output of its profile first.
// Afterwards the machine is as it was before. It answers as this project expects of Windows, except for what Wine
// cannot do.
func TestSelfTest(t *testing.T) {
	ctx, cancel := bounded(t, 5*time.Minute)
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
}
