package acceptance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/hns"
	"nodejoin/examples/acceptance/internal/wine"
)

// TestHostConformanceUnderWine runs the tests of steps/host/windows, including the suite that every host
// passes, as a Windows program.
func TestHostConformanceUnderWine(t *testing.T) {
	testUnderWine(t, "host-windows", "./steps/host/windows")
}

// TestSupervisorUnderWine: the supervisor as a service of a service manager.
func TestSupervisorUnderWine(t *testing.T) { testUnderWine(t, "supervise", "./steps/supervise") }

// TestAgentCrashUnderWine: what a crashing agent leaves, if nobody reads its standard error.
func TestAgentCrashUnderWine(t *testing.T) {
	testUnderWine(t, "agent", "./steps/transport/agent", "-test.run=^TestCrash")
}

// TestOutsideUnderWine: an agent leaves the job of its shell, and goes on when that is killed.
func TestOutsideUnderWine(t *testing.T) {
	testUnderWine(t, "agent", "./steps/transport/agent", "-test.run=^TestOutside$")
}

// TestHostLockUnderWine: the lock's files while another program holds them open.
func TestHostLockUnderWine(t *testing.T) {
	testUnderWine(t, "hostlock", "./steps/hostlock", "-test.run=^TestHolder")
}

// TestLogsUnderWine: a log is truncated while its program has it open. What a program that was replaced while it ran
// has left goes.
func TestLogsUnderWine(t *testing.T) {
	testUnderWine(t, "node", "./steps/node", "-test.run=^(TestCutLog|TestReplacedProgram$)")
}

// TestFollowerUnderWine: a login that others may read, and files of trust that others may write, are refused.
func TestFollowerUnderWine(t *testing.T) {
	testUnderWine(t, "pull", "./cmd/nodejoin/internal/pull", "-test.run=^(TestFollowLogin|TestFollowOpenTrust)$")
}

// TestControllerUnderWine: nodejoin on Windows uses keys of the ssh-agent.
func TestControllerUnderWine(t *testing.T) {
	testUnderWine(t, "transport", "./steps/transport", "-test.run=^TestWindowsAgent$")
}

// TestAgentCacheUnderWine: two first runs of a controller on Windows write the same agent at once.
func TestAgentCacheUnderWine(t *testing.T) {
	testUnderWine(t, "agentbin", "./steps/agentbin",
		"-test.run=^(TestFirstRunsAtOnce|TestReplacedWhileOpen|TestUnpackWhenNeeded)$")
}

// testUnderWine runs the tests of a package as a Windows program. None may be skipped.
func testUnderWine(t *testing.T, name, pkg string, flags ...string) {
	ctx, cancel := bounded(t, 5*time.Minute)
	defer cancel()
	program := goBuild(t, "windows", name+".test.exe", "test", pkg)
	ip, err := hns.NodeIP()
	if err != nil {
		t.Fatal(err)
	}
	calls, err := os.Create(filepath.Join(t.TempDir(), "hns.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Close()
	network, err := hns.Start(ip, calls)
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	h, err := wine.Start(ctx, wine.Options{Components: componentSet(t), Dir: t.TempDir(), HNSPort: network.Port(),
		NoSSH: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(); err != nil {
			t.Error(err)
		}
	})
	const dir = `C:\nodejoin-test`
	if err := os.Mkdir(h.Path(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Path(dir+`\host.test.exe`), b, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := h.Run(ctx, append([]string{dir + `\host.test.exe`, "-test.v", "-test.timeout=4m"}, flags...)...)
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "--- ") || err != nil {
			t.Log(line)
		}
	}
	if err != nil {
		t.Error("the tests failed as a Windows program, see above")
	}
	if strings.Contains(out, "no tests to run") || strings.Contains(out, "--- SKIP") ||
		!strings.Contains(out, "--- PASS") {
		t.Error("a test did not run")
	}
}
