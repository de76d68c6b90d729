//go:build linux

package linux

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host"
)

// systemdHost is this machine, if the variable says that it has systemd and was made for
// tests: units belong to the whole machine. The acceptance tier makes such a machine.
func systemdHost(t *testing.T) *Host {
	t.Helper()
	if os.Getenv("NODEJOIN_TEST_SYSTEMD") == "" {
		t.Skip("needs a machine with systemd that may be changed, and NODEJOIN_TEST_SYSTEMD=1")
	}
	h := openHost(t, false)
	if _, ok := h.services.(systemd); !ok {
		t.Fatal("systemd is not process 1 here")
	}
	return h
}

func TestSystemdConformance(t *testing.T) { conformance(t, systemdHost) }

// createUnit registers a service, which is deleted at the end of the test.
func createUnit(t *testing.T, h *Host, c host.ServiceConfig) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := h.StopService(ctx, c.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := h.DeleteService(ctx, c.Name); err != nil {
			t.Error(err)
		}
	})
	if err := h.CreateService(testContext(t), c); err != nil {
		t.Fatal(err)
	}
}

// TestSystemdRestarts: systemd restarts a service that ends. While it waits to restart,
// the service does not count as stopped. It can be stopped, and then stays stopped.
func TestSystemdRestarts(t *testing.T) {
	h := systemdHost(t)
	ctx := testContext(t)
	c := host.ServiceConfig{Name: "njt-exits", Command: []string{self(t), exitArg}, Start: host.StartAuto,
		Recovery: []host.RecoveryAction{{Action: "restart", Delay: 30 * time.Second}}}
	createUnit(t, h, c)
	if err := h.StartService(ctx, c.Name); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "its end", func() bool { return state(ctx, t, h, c.Name).Restarting })
	if s := state(ctx, t, h, c.Name); s.State != host.ServiceStarting || s.ExitCode != 3 || s.PID != 0 {
		t.Errorf("%+v", s)
	}
	if err := h.DeleteService(ctx, c.Name); !errors.Is(err, host.ErrServiceRunning) {
		t.Errorf("deleted while it restarts: %v", err)
	}
	if err := h.StartService(ctx, c.Name); err != nil {
		t.Errorf("started while it restarts: %v", err)
	}
	await(ctx, t, "its second end", func() bool { return state(ctx, t, h, c.Name).Restarting })
	if err := h.StopService(ctx, c.Name); err != nil {
		t.Fatal(err)
	}
	if s := state(ctx, t, h, c.Name); s.State != host.ServiceStopped || s.ExitCode != 0 {
		t.Errorf("after a stop: %+v", s)
	}
	// Without recovery it stays stopped, and reports how it ended.
	c.Recovery = nil
	if err := h.UpdateService(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := h.StartService(ctx, c.Name); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "its end", func() bool { return state(ctx, t, h, c.Name).State == host.ServiceStopped })
	if s := state(ctx, t, h, c.Name); s.ExitCode != 3 {
		t.Errorf("%+v", s)
	}
}

// TestSystemdByHand: nodejoin notices and undoes changes by hand.
func TestSystemdByHand(t *testing.T) {
	h := systemdHost(t)
	ctx := testContext(t)
	c := host.ServiceConfig{Name: "njt-hand", DisplayName: "njt-hand", Command: []string{self(t), serveArg},
		Start: host.StartAuto}
	createUnit(t, h, c)
	wants := filepath.Join(systemdUnits, unitWantedBy+".wants", "njt-hand.service")
	if _, err := os.Lstat(wants); err != nil {
		t.Errorf("it does not start at boot: %v", err)
	}
	if out, err := exec.CommandContext(ctx, "systemctl", "disable", "njt-hand").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if s := state(ctx, t, h, c.Name); s.Start != host.StartManual {
		t.Errorf("disabled by hand: it starts %s", s.Start)
	}
	raw, err := os.ReadFile(unitPath(c.Name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unitPath(c.Name), []byte(strings.Replace(string(raw), "Type=exec", "Type=simple", 1)),
		0o644); err != nil {
		t.Fatal(err)
	}
	if s := state(ctx, t, h, c.Name); s.Altered == "" {
		t.Errorf("changed by hand: %+v", s)
	}
	if err := h.UpdateService(ctx, c); err != nil {
		t.Fatal(err)
	}
	want := host.Service{ServiceConfig: c, State: host.ServiceStopped}
	if diff := cmp.Diff(want, state(ctx, t, h, c.Name)); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
	if err := h.DeleteService(ctx, c.Name); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{wants, unitPath(c.Name)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// TestSystemdForeign: a unit of a package is a service, which nodejoin must not hide or
// delete.
func TestSystemdForeign(t *testing.T) {
	h := systemdHost(t)
	ctx := testContext(t)
	const file = "/usr/local/lib/systemd/system/njt-foreign.service"
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	reload := func() {
		t.Helper()
		if out, err := exec.CommandContext(context.WithoutCancel(ctx), "systemctl",
			"daemon-reload").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Cleanup(func() { os.Remove(file); reload() })
	if err := os.WriteFile(file, []byte("[Unit]\nDescription=Of a package\n[Service]\nExecStart=/bin/sleep 100\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	reload()
	s := state(ctx, t, h, "njt-foreign")
	if s.Description != "Of a package" || cmp.Diff(s.Command, []string{"/bin/sleep", "100"}) != "" ||
		s.State != host.ServiceStopped {
		t.Errorf("%+v", s)
	}
	if err := h.CreateService(ctx, host.ServiceConfig{Name: "njt-foreign", Command: []string{"/bin/true"},
		Start: host.StartAuto}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created over a package's: %v", err)
	}
	if err := h.DeleteService(ctx, "njt-foreign"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("deleted: %v", err)
	}
}

// TestSystemdSurroundings: the program gets its environment, which only root can read.
// The service's log holds the output of the program.
func TestSystemdSurroundings(t *testing.T) {
	h := systemdHost(t)
	ctx := testContext(t)
	if err := os.WriteFile(h.envFile, []byte("MACHINE='of the machine'\nBOTH=machine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := host.ServiceConfig{Name: "njt-reporter", Command: []string{self(t), reportArg, "", `two "words" $HOME %n`},
		Start:       host.StartManual,
		Environment: []string{"OWN=a b \"$`\\", "BOTH=service"}}
	createUnit(t, h, c)
	if err := h.StartService(ctx, c.Name); err != nil {
		t.Fatal(err)
	}
	want := "args [\"\" \"two \\\"words\\\" $HOME %n\"]\nMACHINE=of the machine\nBOTH=service\nOWN=a b \"$`\\\nHOME=\n"
	await(ctx, t, "its output in the journal", func() bool {
		rc, err := h.Open(ctx, h.serviceFile(c.Name, logExt))
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		defer rc.Close()
		var out strings.Builder
		if _, err := io.Copy(&out, rc); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(out.String(), want)
	})
	if info, err := os.Stat(h.serviceFile(c.Name, envExt)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	out, err := exec.CommandContext(ctx, "systemctl", "show", c.Name).Output()
	if err != nil || strings.Contains(string(out), "a b") {
		t.Errorf("systemd shows the environment to everybody: %v", err)
	}
}

// TestSystemdProgramThatCannotRun: the start fails; the service is not absent.
func TestSystemdProgramThatCannotRun(t *testing.T) {
	h := systemdHost(t)
	ctx := testContext(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := host.ServiceConfig{Name: "njt-broken", Command: []string{script}, Start: host.StartManual,
		Recovery: []host.RecoveryAction{{Action: "restart", Delay: time.Second}}}
	createUnit(t, h, c)
	for _, program := range []string{script, script + ".absent"} {
		c.Command = []string{program}
		if err := h.UpdateService(ctx, c); err != nil {
			t.Fatal(err)
		}
		err := h.StartService(ctx, c.Name)
		t.Log(err)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", program, err)
		}
		if err := h.StopService(ctx, c.Name); err != nil {
			t.Error(err)
		}
	}
}
