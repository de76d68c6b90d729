//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// startOnly is a process that starts a service and ends before it.
func startOnly(dataDir, name string) int {
	h, err := New(Options{DataDir: dataDir, EnvFile: filepath.Join(dataDir, "environment"), Supervisor: true})
	if err == nil {
		err = h.StartService(context.Background(), name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func report() {
	fmt.Printf("args %q\n", os.Args[2:])
	for _, name := range []string{"MACHINE", "BOTH", "OWN", "HOME"} {
		fmt.Printf("%s=%s\n", name, os.Getenv(name))
	}
	dir, _ := os.Getwd()
	sid, _ := unix.Getsid(0)
	fmt.Println("dir", dir, "leader", sid == os.Getpid())
	fmt.Fprintln(os.Stderr, "done")
}

// create registers a service that runs this program; it is stopped at the test's end.
func create(t *testing.T, h *Host, name string, command ...string) host.ServiceConfig {
	t.Helper()
	c := host.ServiceConfig{Name: name, Command: append([]string{self(t)}, command...), Start: host.StartAuto}
	if err := h.CreateService(testContext(t), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Second)
		defer cancel()
		if err := h.StopService(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	return c
}

func await(ctx context.Context, t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("timed out waiting for %s", what)
		case <-tick.C:
		}
	}
}

func state(ctx context.Context, t *testing.T, h *Host, name string) host.Service {
	t.Helper()
	s, err := h.Service(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServiceSurroundings(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	if err := os.WriteFile(h.envFile, []byte("# comment\nMACHINE='of the machine'\nexport BOTH=machine\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	c := create(t, h, "reporter", reportArg, "", `two "words"`)
	c.Environment = []string{"OWN=a b", "BOTH=service"}
	if err := h.UpdateService(ctx, c); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", "/not/inherited")
	if err := h.StartService(ctx, "reporter"); err != nil {
		t.Fatal(err)
	}
	var log []byte
	await(ctx, t, "the log", func() bool {
		var err error
		log, err = os.ReadFile(h.serviceFile("reporter", logExt))
		return err == nil && strings.Contains(string(log), "done")
	})
	want := "args [\"\" \"two \\\"words\\\"\"]\nMACHINE=of the machine\nBOTH=service\nOWN=a b\nHOME=\ndir / leader " +
		"true\ndone\n"
	if diff := cmp.Diff(want, string(log)); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
	for _, file := range []string{h.servicesDir(), h.serviceFile("reporter", definitionExt),
		h.serviceFile("reporter", logExt)} {
		if info, err := os.Stat(file); err != nil || info.Mode()&0o077 != 0 {
			t.Errorf("%s: %v %v", file, info.Mode(), err)
		}
	}
}

// A service that ended by itself is stopped, has its exit code, and leaves no zombie.
func TestServiceExits(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	create(t, h, "exits", exitArg)
	for range 2 {
		if err := h.StartService(ctx, "exits"); err != nil {
			t.Fatal(err)
		}
		id, _, err := h.process("exits")
		if err != nil || id.PID == 0 {
			t.Fatalf("%+v %v", id, err)
		}
		await(ctx, t, "its end", func() bool { return state(ctx, t, h, "exits").State == host.ServiceStopped })
		if s := state(ctx, t, h, "exits"); s.ExitCode != 3 || s.PID != 0 {
			t.Errorf("%+v", s)
		}
		if _, err := readStat(id.PID); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("process %d is still there: %v", id.PID, err)
		}
	}
}

// A zombie of another process is not alive.
func TestZombieIsStopped(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	create(t, h, "exits", exitArg)
	if err := h.StartService(ctx, "exits"); err != nil {
		t.Fatal(err)
	}
	// does not know that the process is its child
	other, err := New(Options{DataDir: h.dataDir, EnvFile: h.envFile, Supervisor: true})
	if err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "its end", func() bool { return state(ctx, t, other, "exits").State == host.ServiceStopped })
}

// The process that starts a service may end before it.
func TestServiceOutlivesStarter(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	create(t, h, "serves", serveArg)
	out, err := exec.CommandContext(ctx, self(t), startArg, h.dataDir, "serves").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := state(ctx, t, h, "serves")
	if s.State != host.ServiceRunning {
		t.Fatalf("%+v", s)
	}
	if err := h.StartService(ctx, "serves"); !errors.Is(err, host.ErrServiceRunning) {
		t.Errorf("second start: %v", err)
	}
	if err := h.StopService(ctx, "serves"); err != nil {
		t.Fatal(err)
	}
	if st, err := readStat(s.PID); err == nil && !st.ended() {
		t.Errorf("process %d still runs", s.PID)
	}
}

// A start that was interrupted between creating the process and recording its PID is found.
func TestInterruptedStart(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	create(t, h, "serves", serveArg)
	if err := h.StartService(ctx, "serves"); err != nil {
		t.Fatal(err)
	}
	want := state(ctx, t, h, "serves")
	var r run
	if err := readJSON(h.serviceFile("serves", runExt), &r); err != nil {
		t.Fatal(err)
	}
	r.Process = processID{}
	if err := h.writeJSON(ctx, h.serviceFile("serves", runExt), r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, state(ctx, t, h, "serves")); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
	if err := h.StartService(ctx, "serves"); !errors.Is(err, host.ErrServiceRunning) {
		t.Errorf("second start: %v", err)
	}
	if err := h.StopService(ctx, "serves"); err != nil {
		t.Fatal(err)
	}
	if st, err := readStat(want.PID); err == nil && !st.ended() {
		t.Errorf("process %d still runs", want.PID)
	}
}

// A PID that belongs to another process, or was recorded before a boot, is not the
// service.
func TestReusedNumber(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	create(t, h, "old", serveArg)
	own, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	earlier, boot := own, own
	earlier.Start--
	boot.Boot = "another"
	for _, id := range []processID{earlier, boot} {
		if err := h.writeJSON(ctx, h.serviceFile("old", runExt), run{Mark: "m", Process: id}); err != nil {
			t.Fatal(err)
		}
		if s := state(ctx, t, h, "old"); s.State != host.ServiceStopped || s.PID != 0 {
			t.Errorf("%+v", s)
		}
		if err := h.StopService(ctx, "old"); err != nil {
			t.Error(err)
		}
	}
}

// A service that ignores a stop is killed.
func TestStubbornServiceIsKilled(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	create(t, h, "stubborn", stubbornArg)
	if err := h.StartService(ctx, "stubborn"); err != nil {
		t.Fatal(err)
	}
	s := state(ctx, t, h, "stubborn")
	await(ctx, t, "its signal handler", func() bool { return catches(t, s.PID, unix.SIGTERM) })
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := h.StopService(short, "stubborn"); err != nil {
		t.Fatal(err)
	}
	if _, err := readStat(s.PID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("process %d is still there: %v", s.PID, err)
	}
}

// catches reads SigCgt of proc_pid_status(5).
func catches(t *testing.T, pid int, signal unix.Signal) bool {
	t.Helper()
	raw, err := os.ReadFile(procPath(pid, "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			var mask uint64
			if _, err := fmt.Sscanf(strings.TrimSpace(v), "%x", &mask); err != nil {
				t.Fatal(err)
			}
			return mask&(1<<(uint(signal)-1)) != 0
		}
	}
	return false
}

// If a program cannot run, the start fails; the service is not absent.
func TestProgramThatCannotRun(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	dir := t.TempDir()
	plain, script := filepath.Join(dir, "plain"), filepath.Join(dir, "script")
	for path, mode := range map[string]os.FileMode{plain: 0o644, script: 0o755} {
		if err := os.WriteFile(path, []byte("#!/no/such/interpreter\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	c := create(t, h, "broken", serveArg)
	for _, program := range []string{filepath.Join(dir, "absent"), plain, script, dir} {
		c.Command = []string{program}
		if err := h.UpdateService(ctx, c); err != nil {
			t.Fatal(err)
		}
		err := h.StartService(ctx, "broken")
		t.Log(err)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", program, err)
		}
		if s := state(ctx, t, h, "broken"); s.State != host.ServiceStopped {
			t.Errorf("%+v", s)
		}
	}
}

func TestServiceNames(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	for _, name := range []string{"", "..", "a/b", ".x", strings.Repeat("x", 201)} {
		c := host.ServiceConfig{Name: name, Command: []string{"/bin/true"}, Start: host.StartAuto}
		if err := h.CreateService(ctx, c); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := h.Service(ctx, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A definition that cannot be read is not an absent service.
func TestDamagedDefinition(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	create(t, h, "fine", serveArg)
	bad := h.serviceFile("bad", definitionExt)
	if err := os.WriteFile(bad, []byte(`{"name":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Service(ctx, "bad"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("damaged definition: %v", err)
	}
	if err := h.DeleteService(ctx, "fine"); err == nil {
		t.Error("a service that a damaged one may depend on was deleted")
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
}

func TestLeaderWithEnvIgnoresOthers(t *testing.T) {
	if id, ok, err := leaderWithEnv("NODEJOIN_SERVICE_RUN=none"); ok || err != nil {
		t.Errorf("%+v %v", id, err)
	}
	pids, err := processes()
	if err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("%v %v", pids, err)
	}
}
