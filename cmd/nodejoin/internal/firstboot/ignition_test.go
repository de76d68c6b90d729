package firstboot

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestIgnition: Ignition's own validator takes the configuration without a word, and systemd its unit. It fetches
// modules, so it runs only where NODEJOIN_TEST_RELEASE is set.
func TestIgnition(t *testing.T) {
	if os.Getenv("NODEJOIN_TEST_RELEASE") == "" {
		t.Skip("fetches modules; set NODEJOIN_TEST_RELEASE")
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "install", "github.com/coreos/ignition/v2/validate@v2.24.0")
	build.Env = append(os.Environ(), "GOBIN="+bin, "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	u, _ := sample(t)
	text, err := u.render(formats["ignition"])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, by, want string }{
		"as it is":        {"", "", ""},
		"unknown key":     {`"mode"`, `"made"`, "made"},
		"shortened hash":  {u.Program.SHA256, "cdcd", "incorrect size for hash sum"},
		"relative path":   {`"path": "/`, `"path": "`, "path not absolute"},
		"not in base64":   {";base64,", ";base64,_", "invalid data character"},
		"other version":   {`"3.4.0"`, `"2.3.0"`, "unsupported config version"},
		"name of no unit": {"first-boot.service", "first-boot", "invalid systemd unit extension"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "validate"), "-")
		cmd.Stdin = bytes.NewReader(bytes.Replace(text, []byte(c.old), []byte(c.by), 1))
		out, err := cmd.CombinedOutput()
		if c.want == "" && (err != nil || len(out) > 0) || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, want %q\n%s", name, err, c.want, out)
		}
	}
	wantUnit(t, text)
}

// wantUnit has systemd check the unit, where it is installed.
func wantUnit(t *testing.T, text []byte) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	const program = "/usr/local/bin/nodejoin-first-boot first-boot" // comes with the configuration
	unit := strings.ReplaceAll(unitOf(t, text), program, "/bin/true first-boot")
	for _, c := range []struct{ unit, says string }{{unit, ""}, {strings.Replace(unit, "UMask", "Mask", 1), "'Mask'"}} {
		name := filepath.Join(t.TempDir(), "nodejoin-first-boot.service")
		if err := os.WriteFile(name, []byte(c.unit), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", name).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.says) || c.says == "" && strings.Contains(string(out), name) {
			t.Errorf("systemd-analyze: %v, want %q\n%s", err, c.says, out)
		}
	}
}

// unitOf is the unit of a configuration.
func unitOf(t *testing.T, text []byte) string {
	t.Helper()
	var config struct {
		Systemd struct{ Units []struct{ Contents string } }
	}
	if err := json.Unmarshal(text, &config); err != nil || len(config.Systemd.Units) != 1 {
		t.Fatalf("%v\n%s", err, text)
	}
	return config.Systemd.Units[0].Contents
}

// TestIgnitionUnit: the unit of Ignition removes what is secret whatever happens, and goes on after a boot.
func TestIgnitionUnit(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	u, _ := sample(t)
	text, err := u.render(formats["ignition"])
	if err != nil {
		t.Fatal(err)
	}
	unit := unitOf(t, text)
	_, script, _ := strings.Cut(unit, "\nExecStart=/bin/sh -c '")
	script, _, ok := strings.Cut(script, "'\n")
	if !ok || strings.ContainsAny(script, `'"\%`) || strings.Contains(script, "${") { // systemd changes these
		t.Fatalf("the unit is\n%s", unit)
	}
	const program = "/usr/local/bin/nodejoin-first-boot"
	for _, c := range []struct {
		name, program string
		code          int
		stays         bool
	}{
		{"joined", "exit 0", 0, false},
		{"failed", "exit 5", 5, false},
		{"killed", "kill -9 $$", 137, false},
		{"reboot", "exit 6", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			work, at := filepath.Join(dir, "work"), filepath.Join(dir, "program")
			for name, content := range map[string]string{filepath.Join(work, "join.json"): "{}",
				at: "#!/bin/sh\n[ \"$*\" = 'first-boot " + work + "/join.json' ] && [ -f $2 ] || exit 99\n" +
					c.program + "\n",
				filepath.Join(dir, "bin", "systemctl"): "#!/bin/sh\n[ \"$*\" = reboot ] && touch " + dir +
					"/rebooted\n"} {
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(content), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), sh, "-c",
				strings.NewReplacer(linuxFolder, work, program, at).Replace(script))
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
			out, _ := cmd.CombinedOutput() // the exit code says it
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, out)
			}
			for _, name := range []string{work, at} {
				if _, err := os.Stat(name); (err == nil) != c.stays {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "rebooted")); (err == nil) != c.stays {
				t.Errorf("rebooted: %v", err)
			}
		})
	}
}
