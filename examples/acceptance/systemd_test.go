package acceptance_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/machine"
)

// startMachine starts a Linux machine, which is stopped at the end of the test.
func startMachine(ctx context.Context, t *testing.T, opt machine.Options) *machine.Machine {
	t.Helper()
	m, err := machine.Start(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestHostConformanceUnderSystemd runs the tests of steps/host/linux that are about
// systemd, with the conformance suite of all hosts, on a machine of their own.
func TestHostConformanceUnderSystemd(t *testing.T) {
	ctx, cancel := bounded(t, 5*time.Minute)
	defer cancel()
	program := goBuild(t, "linux", "host-linux.test", "test", "./steps/host/linux")
	m := startMachine(ctx, t, machine.Options{Dir: t.TempDir(), Name: "units", Systemd: true})
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	const path = "/opt/host.test"
	if err := os.WriteFile(m.Path(path), b, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := m.Run(ctx, "env", "NODEJOIN_TEST_SYSTEMD=1", path, "-test.v", "-test.run=^TestSystemd",
		"-test.timeout=4m")
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "--- ") || err != nil {
			t.Log(line)
		}
		// Service parameters are in the registry, which Linux does not have.
		if strings.Contains(line, "--- SKIP") && !strings.Contains(line, "/services/parameters ") {
			t.Error("a test did not run:", line)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(out, "--- PASS") {
		t.Error("no test ran")
	}
}
