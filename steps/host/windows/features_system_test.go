//go:build windows

package windows

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"

	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

const (
	sshCapability = "OpenSSH.Server~~~~0.0.1.0"
	// What stands for Windows Update: it serves services alone, and not while it is held
	// (examples/acceptance/wine/capability.c).
	updates    = `C:\windows\update-stand-in`
	updateHold = updates + `\hold`
	// enableArg makes the test binary enable sshCapability.
	enableArg = "nodejoin-test-enable"
)

// featureHost is a host that has this binary as the service that changes features.
func featureHost() (*Host, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return New(Options{FeatureService: []string{exe, FeatureCommand}})
}

// enable is the program of enableArg.
func enable() error {
	h, err := featureHost()
	if err != nil {
		return err
	}
	return h.EnableFeature(context.Background(), sshCapability)
}

// withUpdates offers the capability, which is not installed, and removes it when the test ends.
func withUpdates(t *testing.T) *Host {
	t.Helper()
	onlyStandIn(t)
	h, err := featureHost()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sshd.exe", "sshd_config_default"} {
		write(t, filepath.Join(updates, name))
	}
	t.Cleanup(func() {
		if err := h.DisableFeature(context.WithoutCancel(t.Context()), sshCapability); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"sshd.exe", "sshd_config_default", ""} {
			if err := os.Remove(filepath.Join(updates, name)); err != nil {
				t.Error(err)
			}
		}
	})
	return h
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// wantCapability checks the state of the capability, and with it whether there is a service sshd.
func wantCapability(t *testing.T, h *Host, want host.FeatureState) {
	t.Helper()
	have, err := h.Feature(t.Context(), sshCapability)
	if err != nil || have != want {
		t.Errorf("the capability is %q, %v; want %q", have, err, want)
	}
	if _, err := h.Service(t.Context(), "sshd"); errors.Is(err, fs.ErrNotExist) == (want == host.FeatureOn) {
		t.Errorf("service sshd: %v", err)
	}
}

// wantGone waits until no service changes features any more.
func wantGone(t *testing.T, h *Host) {
	t.Helper()
	err := wait.Until(context30(t), 50*time.Millisecond, func() (bool, error) {
		_, err := h.Service(t.Context(), featureServiceName)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		t.Errorf("service %s is left: %v", featureServiceName, err)
	}
}

// TestCapabilityAsSystem: what Windows Update refuses this login is installed by a service, which goes.
func TestCapabilityAsSystem(t *testing.T) {
	h := withUpdates(t)
	wantCapability(t, h, host.FeatureRemoved)
	if err := newHost(t).EnableFeature(t.Context(), sshCapability); !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		t.Fatalf("without a service: %v, want access denied", err)
	}
	wantCapability(t, h, host.FeatureRemoved)
	for range 2 {
		if err := h.EnableFeature(t.Context(), sshCapability); err != nil {
			t.Fatal(err)
		}
		wantCapability(t, h, host.FeatureOn)
		wantGone(t, h)
	}
	if err := h.DisableFeature(t.Context(), sshCapability); err != nil {
		t.Fatal(err)
	}
	wantCapability(t, h, host.FeatureRemoved)
}

// TestCapabilityNotServed: the code with which the call failed comes from the service.
func TestCapabilityNotServed(t *testing.T) {
	h := withUpdates(t)
	if err := os.Rename(updates+`\sshd.exe`, updates+`\sshd.away`); err != nil {
		t.Fatal(err)
	}
	err := h.EnableFeature(t.Context(), sshCapability)
	if err == nil || !strings.Contains(err.Error(), "as SYSTEM: DismAddCapability: ") ||
		!strings.Contains(err.Error(), "0x800f081f") {
		t.Errorf("%v", err)
	}
	wantGone(t, h)
	wantCapability(t, h, host.FeatureRemoved)
	if err := os.Rename(updates+`\sshd.away`, updates+`\sshd.exe`); err != nil {
		t.Fatal(err)
	}
}

// TestCapabilityKilled: a run is killed while the service works. The service finishes and goes; a run that comes
// meanwhile waits for it.
func TestCapabilityKilled(t *testing.T) {
	h := withUpdates(t)
	write(t, updateHold)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(exe, enableArg)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	waitState(context30(t), t, await(t, h, featureServiceName), featureServiceName, host.ServiceRunning)
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = h.EnableFeature(short, sshCapability)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), busyWait) {
		t.Errorf("while it works: %v, want %q", err, busyWait)
	}
	next := make(chan error, 1)
	go func() { next <- h.EnableFeature(t.Context(), sshCapability) }()
	if err := os.Remove(updateHold); err != nil {
		t.Fatal(err)
	}
	if err := <-next; err != nil {
		t.Error(err)
	}
	wantCapability(t, h, host.FeatureOn)
	wantGone(t, h)
}

// await waits until there is a service.
func await(t *testing.T, h *Host, name string) *Host {
	t.Helper()
	err := wait.Until(context30(t), 20*time.Millisecond, func() (bool, error) {
		_, err := h.Service(t.Context(), name)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		t.Fatalf("service %s: %v", name, err)
	}
	return h
}

// TestCapabilityNeverStarted: a run was killed before it started its service.
func TestCapabilityNeverStarted(t *testing.T) {
	h := withUpdates(t)
	m, err := openManager(windows.SC_MANAGER_CONNECT | windows.SC_MANAGER_CREATE_SERVICE)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Disconnect()
	s, err := m.CreateService(featureServiceName, `C:\gone.exe`, mgr.Config{StartType: mgr.StartManual})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := h.EnableFeature(t.Context(), sshCapability); err != nil {
		t.Fatal(err)
	}
	wantCapability(t, h, host.FeatureOn)
	wantGone(t, h)
}
