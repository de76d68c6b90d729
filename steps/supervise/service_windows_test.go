package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// First arguments that make the test program something else: a supervisor, and the
// programs that it supervises.
const (
	asSupervisor = "test-supervise"
	asProgram    = "test-program" // starts a child, ends when it is interrupted
	asDeaf       = "test-deaf"    // ends only by force
	asShort      = "test-short"   // ends at once
)

func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case asSupervisor:
		os.Exit(Main(os.Args[2:]))
	case asShort:
		fmt.Println("short")
		os.Exit(7)
	case asDeaf:
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
		fmt.Println("deaf", os.Getpid())
		time.Sleep(5 * time.Minute)
	case asProgram:
		os.Exit(testProgram())
	default:
		os.Exit(m.Run())
	}
}

func testProgram() int {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	fmt.Println("NODE_NAME is", os.Getenv("NODE_NAME"))
	child := exec.Command(os.Args[0], asDeaf)
	child.Stdout = os.Stdout
	if err := child.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	select {
	case <-interrupted:
		fmt.Println("heard")
		return 0
	case <-time.After(5 * time.Minute):
		return 1
	}
}

// service registers a supervisor of this program and returns it with its log.
func service(t *testing.T, kind string) (*mgr.Service, string) {
	t.Helper()
	m, err := mgr.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Disconnect() })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := "nodejoin-" + t.Name()
	log := filepath.Join(filepath.Dir(exe), "logs of "+name, "x.log")
	s, err := m.CreateService(name, exe, mgr.Config{StartType: mgr.StartManual},
		asSupervisor, "--name", "other", "--log", log, "--restart-delay", "50ms", "--", exe, kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.Control(svc.Stop); err == nil { // it runs
			awaitState(t, s, svc.Stopped)
		}
		if err := errors.Join(s.Delete(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\`+name, registry.SET_VALUE)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(key.SetStringsValue("Environment", []string{"NODE_NAME=win-1", "OTHER=x"}),
		key.Close()); err != nil {
		t.Fatal(err)
	}
	return s, log
}

func awaitState(t *testing.T, s *mgr.Service, want svc.State) svc.Status {
	t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for {
		status, err := s.Query()
		if err != nil {
			t.Fatal(err)
		}
		if status.State == want {
			return status
		}
		if time.Now().After(deadline) {
			t.Fatalf("state %d, want %d", status.State, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func awaitText(t *testing.T, path, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.Now().Add(40 * time.Second)
	for {
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), "\r", "")
		if re.MatchString(text) {
			return text
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in the log:\n%s", pattern, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitEnd waits until the process that the log names no longer runs.
func awaitEnd(t *testing.T, log, pattern string) {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(log)
	if m == nil {
		t.Fatalf("no %s in:\n%s", pattern, log)
	}
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	p, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return // gone
	}
	defer windows.CloseHandle(p)
	if result, err := windows.WaitForSingleObject(p, 40_000); result != windows.WAIT_OBJECT_0 {
		t.Errorf("process %d still runs: %d %v", pid, result, err)
	}
}

func TestServiceRunsAndStops(t *testing.T) {
	s, log := service(t, asProgram)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, svc.Running)
	text := awaitText(t, log, `(?m)^deaf \d+$`)
	awaitText(t, log, `(?m)^NODE_NAME is win-1$`)
	begun := time.Now()
	if _, err := s.Control(svc.Stop); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, svc.Stopped)
	ended := awaitText(t, log, `stopped: `)
	t.Logf("stopped in %v\n%s", time.Since(begun), ended)
	// Wine 8 gives services no console that carries CTRL_BREAK.
	if heard := strings.Contains(ended, "\nheard\n"); !heard && ntdll.NewProc("wine_get_version").Find() != nil {
		t.Error("the program was not asked to end")
	}
	awaitEnd(t, text, `process (\d+)`)
	awaitEnd(t, text, `deaf (\d+)`)
}

func TestServiceStopsDeaf(t *testing.T) {
	s, log := service(t, asDeaf)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	text := awaitText(t, log, `(?m)^deaf \d+$`)
	begun := time.Now()
	if _, err := s.Control(svc.Stop); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, svc.Stopped)
	if took := time.Since(begun); took > stopGrace+killGrace+5*time.Second {
		t.Errorf("it took %v", took)
	}
	awaitEnd(t, text, `deaf (\d+)`)
}

func TestServiceRestarts(t *testing.T) {
	s, log := service(t, asShort)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	awaitText(t, log, `(?s)(short\n.*exit status 7\n.*next start.*){3}`)
	awaitState(t, s, svc.Running)
}

// TestKilledSupervisor: no program outlives its killed supervisor.
func TestKilledSupervisor(t *testing.T) {
	s, log := service(t, asProgram)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	text := awaitText(t, log, `(?m)^deaf \d+$`)
	status := awaitState(t, s, svc.Running)
	p, err := os.FindProcess(int(status.ProcessId))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, text, `process (\d+)`)
	awaitEnd(t, text, `deaf (\d+)`)
}

func TestServiceWithoutProgram(t *testing.T) {
	log := filepath.Join(t.TempDir(), "x.log")
	if code := Main([]string{"--name", "x", "--log", log, "--", `C:\absent\program.exe`}); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	awaitText(t, log, `not started: `)
}

var ntdll = windows.NewLazySystemDLL("ntdll.dll")
