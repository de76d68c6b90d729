//go:build windows

package windows

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// onlyStandIn skips a test that changes more of the machine than a test may.
func onlyStandIn(t *testing.T) {
	t.Helper()
	if !underWine() {
		t.Skip("it would turn features of this Windows on, or reboot it")
	}
}

// TestFeatureAtOnce: a feature that needs no reboot is on at once, and so is its parent
// feature.
func TestFeatureAtOnce(t *testing.T) {
	onlyStandIn(t)
	h, ctx := newHost(t), context30(t)
	want := func(name string, state host.FeatureState) {
		t.Helper()
		if have, err := h.Feature(ctx, name); err != nil || have != state {
			t.Errorf("%s is %q, %v; want %q", name, have, err, state)
		}
	}
	want("IIS-WebServerRole", host.FeatureOff)
	if err := h.EnableFeature(ctx, "IIS-WebServer"); err != nil {
		t.Fatal(err)
	}
	want("IIS-WebServer", host.FeatureOn)
	want("IIS-WebServerRole", host.FeatureOn)
	for _, name := range []string{"IIS-WebServer", "IIS-WebServerRole"} {
		if err := h.DisableFeature(ctx, name); err != nil {
			t.Fatal(err)
		}
		want(name, host.FeatureOff)
	}
}

// TestFeaturesAsked: a process has one API, so the hosts of a process take turns.
func TestFeaturesAsked(t *testing.T) {
	onlyStandIn(t)
	ctx := context30(t)
	var all sync.WaitGroup
	for range 8 {
		h := newHost(t)
		all.Go(func() {
			if have, err := h.Feature(ctx, "Containers"); err != nil || have != host.FeatureOn {
				t.Errorf("Containers is %q, %v", have, err)
			}
		})
	}
	all.Wait()
}

// TestReboot: nodejoin requests a reboot with the privilege that Windows requires, which differs
// for a network logon. It does not request a reboot that is already under way.
func TestReboot(t *testing.T) {
	onlyStandIn(t)
	const asked = `C:\windows\shutdown-stand-in.asked`
	h, ctx := newHost(t), context30(t)
	if _, err := os.Stat(asked); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a reboot was already requested: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(asked); err != nil {
			t.Error(err)
		}
	})
	for _, connection := range []string{"192.0.2.1 50000 192.0.2.2 22", ""} {
		t.Setenv("SSH_CONNECTION", connection) // means a network logon to the stand-in
		if err := h.Reboot(ctx); err != nil {
			t.Fatal(err)
		}
		// After 5 seconds, forced, a reboot, for a planned reconfiguration of the system.
		if have, err := os.ReadFile(asked); err != nil || string(have) != "5 1 1 0x80020004\n" {
			t.Errorf("requested %q, %v", have, err)
		}
	}
}

// TestRebootOfOthers: a shutdown that somebody has planned for later is not the reboot that was requested.
func TestRebootOfOthers(t *testing.T) {
	onlyStandIn(t)
	const asked = `C:\windows\shutdown-stand-in.asked`
	if err := os.WriteFile(asked, []byte("600 0 0 0x80020004\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(asked); err != nil {
			t.Error(err)
		}
	})
	h, ctx := newHost(t), context30(t)
	if err := h.Reboot(ctx); !errors.Is(err, host.ErrShutdownPlanned) {
		t.Errorf("a shutdown in ten minutes: %v", err)
	}
}

func TestResult(t *testing.T) {
	for _, code := range []uintptr{0, 1, 3010, 0x80070bc2} {
		if err := result("x", code); err != nil {
			t.Errorf("%#x: %v", code, err)
		}
	}
	for code, want := range map[uintptr]string{
		0x800f080c: "x: no feature has that name: file does not exist",
		0x800f0902: "x: Windows is installing or removing something else; try again when it is done",
		0x800f081f: "x: the machine does not have the feature's files, and could not get them from Windows Update " +
			"(HRESULT 0x800f081f); install the feature in the machine's image, or from Windows' installation media",
		0x800702e4: "x: only an elevated administrator may do this (HRESULT 0x800702e4)",
		0xc0040001: "x: HRESULT 0xc0040001",
	} {
		if err := result("x", code); err == nil || err.Error() != want {
			t.Errorf("%#x: %v, want %s", code, err, want)
		}
	}
	if err := result("x", 0x80070002); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that a call did not find: %v", err)
	}
	if err := result("x", 0x80070005); !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		t.Error(err)
	}
}
