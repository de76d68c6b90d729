//go:build unix

package supervise

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// supervisorVariable makes the test program a supervisor with these arguments.
const supervisorVariable = "SUPERVISE_TEST_ARGUMENTS"

func TestMain(m *testing.M) {
	if args := os.Getenv(supervisorVariable); args != "" {
		os.Exit(Main(strings.Split(args, "\n")))
	}
	os.Exit(m.Run())
}

// runSupervisor starts a supervisor of a shell script as a process of its own.
func runSupervisor(t *testing.T, script string, flags ...string) (*exec.Cmd, string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "x.log")
	args := append([]string{"--name", "x", "--log", log, "--restart-delay", "20ms"}, flags...)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), supervisorVariable+"="+strings.Join(append(args, "--", "/bin/sh", "-c", script), "\n"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, log
}

// awaitLog waits for a match in the log and returns the log.
func awaitLog(t *testing.T, path, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.Now().Add(20 * time.Second)
	for {
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if re.Match(b) {
			return string(b)
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in the log:\n%s", pattern, b)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func gone(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !gone(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func number(t *testing.T, text, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %s in:\n%s", pattern, text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRestartsRealProgram(t *testing.T) {
	cmd, log := runSupervisor(t, `echo out; echo err >&2; exit 7`)
	text := awaitLog(t, log, `(?s)(started /bin/sh.*){3}`)
	for _, want := range []string{`(?m)^out$`, `(?m)^err$`,
		`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[supervise x\] ended by itself after .*: exit status 7$`,
		`next start in 20ms`, `next start in 40ms`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestStopEndsTree: the program gets SIGTERM, and what it leaves running ends too.
func TestStopEndsTree(t *testing.T) {
	cmd, log := runSupervisor(t,
		`trap 'echo heard; exit 0' TERM; `+
			`(trap '' TERM; echo grandchild $(exec sh -c 'echo $PPID'); `+
			`while :; do sleep 0.1; done) & while :; do sleep 0.1; done`)
	text := awaitLog(t, log, `grandchild \d+\n`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	awaitLog(t, log, `heard\n`)
	awaitGone(t, number(t, text, `grandchild (\d+)`))
	awaitGone(t, number(t, text, `process (\d+)`))
}

// TestEndWithSupervisor: a killed supervisor leaves no program behind.
func TestEndWithSupervisor(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs Linux")
	}
	cmd, log := runSupervisor(t, `echo ready; exec sleep 60`)
	text := awaitLog(t, log, `(?m)^ready$`)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	awaitGone(t, number(t, text, `process (\d+)`))
}

func TestNoProgram(t *testing.T) {
	log := filepath.Join(t.TempDir(), "x.log")
	if code := Main([]string{"--name", "x", "--log", log, "--", "/nonexistent/program"}); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	awaitLog(t, log, `not started: .*no such file`)
}

func TestRealRotation(t *testing.T) {
	cmd, log := runSupervisor(t, `i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo full; sleep 60`,
		"--log-max-size", "4096", "--log-keep", "3")
	awaitLog(t, log, `(?m)^full$`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	files := readFiles(t, filepath.Dir(log))
	if len(files) != 4 {
		t.Errorf("%d files", len(files))
	}
	for name, text := range files {
		if len(text) > 4096 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
	}
}
