//go:build windows

package windows

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// tempDir is a folder that is removed entry by entry: Wine 8 lacks the call that
// os.RemoveAll, and so t.TempDir, uses.
func tempDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "nodejoin-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var paths []string
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
			paths = append(paths, path)
			return nil
		})
		for i := len(paths) - 1; i >= 0; i-- {
			if err := os.Remove(paths[i]); err != nil {
				t.Error(err)
			}
		}
	})
	return dir
}

func TestFileAccess(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	dir := filepath.Join(tempDir(t), "d")
	want := func(path string, access host.Access) {
		t.Helper()
		info, err := h.Stat(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Access != access {
			t.Errorf("%s: access %q, want %q", filepath.Base(path), info.Access, access)
		}
	}
	if err := h.Mkdir(ctx, dir, host.AccessDefault); err != nil {
		t.Fatal(err)
	}
	want(dir, host.AccessDefault)
	secret, open := filepath.Join(dir, "secret"), filepath.Join(dir, "open")
	if err := h.WriteFile(ctx, secret, strings.NewReader("s"),
		host.WriteOptions{Access: host.AccessPrivate}); err != nil {
		t.Fatal(err)
	}
	want(secret, host.AccessPrivate)
	if err := h.WriteFile(ctx, open, strings.NewReader("o"), host.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	want(open, host.AccessDefault)
	for _, access := range []host.Access{host.AccessPrivate, host.AccessDefault, host.AccessPrivate} {
		for _, path := range []string{dir, open} {
			if err := h.SetAccess(ctx, path, access); err != nil {
				t.Fatal(err)
			}
			want(path, access)
		}
	}
	private := filepath.Join(dir, "private")
	if err := h.Mkdir(ctx, private, host.AccessPrivate); err != nil {
		t.Fatal(err)
	}
	want(private, host.AccessPrivate)
}

func TestFileReplace(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	path := filepath.Join(tempDir(t), "a", "b", "f")
	var ids []string
	for _, text := range []string{"one", "two"} {
		if err := h.WriteFile(ctx, path, strings.NewReader(text), host.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		info, err := h.Stat(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	if ids[0] == ids[1] || ids[0] == "" {
		t.Errorf("IDs %q", ids)
	}
	err := h.WriteFile(ctx, path, strings.NewReader("three"), host.WriteOptions{SHA256: strings.Repeat("0", 64)})
	var digest *host.DigestError
	if !errors.As(err, &digest) {
		t.Errorf("wrong digest: %v", err)
	}
	f, err := h.Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err != nil || string(data) != "two" || f.Close() != nil {
		t.Errorf("%q %v", data, err)
	}
	list, err := h.List(ctx, filepath.Dir(path))
	if err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	if _, err := h.Stat(ctx, path+"x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if n, err := h.FreeBytes(ctx, path+`x\y\z`); err != nil || n == 0 {
		t.Errorf("free: %d %v", n, err)
	}
}

// A running program can be neither replaced nor removed, and the error says why.
func TestRunningProgramIsBusy(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	self, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	path := filepath.Join(tempDir(t), "program.exe")
	if err := h.WriteFile(ctx, path, self, host.WriteOptions{Access: host.AccessProgram}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, sleepArg)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	other := path + ".new"
	if err := h.WriteFile(ctx, other, strings.NewReader("x"), host.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := h.Rename(ctx, other, path); !errors.Is(err, host.ErrBusy) {
		t.Errorf("rename: %v", err)
	}
	if err := h.WriteFile(ctx, path, strings.NewReader("x"), host.WriteOptions{}); !errors.Is(err, host.ErrBusy) {
		t.Errorf("write: %v", err)
	}
	if err := h.Remove(ctx, path); !errors.Is(err, host.ErrBusy) {
		t.Errorf("remove: %v", err)
	}
	if pids, err := h.Processes(ctx, path); err != nil || len(pids) != 1 || pids[0] != cmd.Process.Pid {
		t.Errorf("its processes: %v, %v", pids, err)
	}
	if err := h.EndProcesses(ctx, path); err != nil {
		t.Errorf("end its processes: %v", err)
	}
	if pids, err := h.Processes(ctx, path); err != nil || len(pids) > 0 {
		t.Errorf("its processes after their end: %v, %v", pids, err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := h.Processes(ctx, own); err != nil || slices.Contains(pids, os.Getpid()) {
		t.Errorf("the other processes of this program: %v, %v", pids, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := h.Rename(ctx, other, path); err != nil {
		t.Errorf("rename after its end: %v", err)
	}
	if err := h.Remove(ctx, path); err != nil {
		t.Errorf("remove after its end: %v", err)
	}
}

// A file that another program reads is replaced once that program closes it. One that
// stays open is reported as refused.
func TestHeldFileIsReplaced(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	path := filepath.Join(tempDir(t), "record.json")
	write := func(text string) error { return h.WriteFile(ctx, path, strings.NewReader(text), host.WriteOptions{}) }
	if err := write("before"); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := write("refused"); err == nil {
		return // a file that is open for reading can be replaced here
	}
	closed := time.AfterFunc(300*time.Millisecond, func() { _ = reader.Close() })
	defer closed.Stop()
	if err := write("after"); err != nil {
		t.Errorf("write to a file that is closed meanwhile: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "after" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

func TestRegistry(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	const key = `HKLM\SOFTWARE\nodejoin-test\deep`
	for _, want := range []host.RegistryValue{
		{Type: "string", String: "text"}, {Type: "expand_string", String: `%SystemRoot%\x`},
		{Type: "multi_string", Strings: []string{"a", "b"}}, {Type: "dword", Number: 1<<32 - 1},
		{Type: "qword", Number: 1 << 40}, {Type: "binary", Binary: []byte{0, 1}},
	} {
		if err := h.SetRegistryValue(ctx, key, "v", want); err != nil {
			t.Fatal(err)
		}
		have, err := h.RegistryValue(ctx, key, "v")
		if diff := cmp.Diff(want, have); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	for range 2 {
		if err := h.DeleteRegistryValue(ctx, key, "v"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.RegistryValue(ctx, key, "v"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent value: %v", err)
	}
	if _, err := h.RegistryValue(ctx, `HKXX\a`, "v"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("wrong root: %v", err)
	}
}

func TestMachineEnv(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	const name = "NODEJOIN_TEST"
	for _, want := range []string{"plain", `%SystemRoot%\x`, "plain again"} {
		if err := h.SetMachineEnv(ctx, name, want); err != nil {
			t.Fatal(err)
		}
		if have, err := h.MachineEnv(ctx, name); err != nil || have != want {
			t.Errorf("%q %v", have, err)
		}
	}
	for range 2 {
		if err := h.UnsetMachineEnv(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.MachineEnv(ctx, name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func TestFacts(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	facts, err := h.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", facts)
	if facts.OS != "windows" || facts.Hostname == "" || !strings.HasPrefix(facts.Build, "10.0.") ||
		facts.BootTime.IsZero() || facts.DataDir == "" {
		t.Errorf("%+v", facts)
	}
}

// TestBootTimeOutlivesClockSteps: the boot time stays the same when the clock is set, although Windows moves its own.
func TestBootTimeOutlivesClockSteps(t *testing.T) {
	onlyStandIn(t)
	h, ctx := newHost(t), context30(t)
	before, err := bootTime()
	if err != nil {
		t.Fatal(err)
	}
	const key, value, hour = `HKLM\SOFTWARE\nodejoin-stand-in`, "ClockStep", 36_000_000_000 // 100 ns
	if err := h.SetRegistryValue(ctx, key, value, host.RegistryValue{Type: "qword", Number: hour}); err != nil {
		t.Fatal(err)
	}
	after, err := bootTime()
	if err = errors.Join(err, h.DeleteRegistryValue(ctx, key, value)); err != nil || !after.Equal(before) {
		t.Errorf("boot at %s, and after a step of the clock at %s, %v", before, after, err)
	}
}

func TestProbeHTTP(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	url := "http://" + l.Addr().String() + "/healthz"
	if status, err := h.ProbeHTTP(ctx, url); err != nil || status != http.StatusNotFound {
		t.Errorf("%d %v", status, err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if _, err := h.ProbeHTTP(ctx, url); err == nil {
		t.Error("an ended server answered")
	}
	if _, err := h.ProbeHTTP(ctx, "http://198.51.100.1/"); err == nil {
		t.Error("a foreign address was probed")
	}
}

func TestFirewall(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	_, err := h.FirewallRule(ctx, "nodejoin-test")
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	want := host.FirewallRule{
		Name: "nodejoin-test", DisplayName: "group", Description: "made by a test",
		Direction: "in", Action: "allow", Protocol: "tcp", Ports: "10250", Enabled: true,
	}
	for _, change := range []func(){
		func() {}, func() { want.Ports, want.Protocol, want.Direction = "", "udp", "out" },
		func() { want.Program, want.Action, want.Enabled = `C:\k\kubelet.exe`, "block", false },
	} {
		change()
		if err := h.PutFirewallRule(ctx, want); err != nil {
			t.Fatal(err)
		}
		have, err := h.FirewallRule(ctx, want.Name)
		if diff := cmp.Diff(want, have); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
	}
	for range 2 {
		if err := h.DeleteFirewallRule(ctx, want.Name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.FirewallRule(ctx, want.Name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted: %v", err)
	}
}

// TestNextName: the name after a boot is read from where Windows stores it. Wine does not
// store it, so the test does.
func TestNextName(t *testing.T) {
	if !underWine() {
		t.Skip("a machine that is in use is not renamed")
	}
	h := newHost(t)
	now, err := h.HostName(t.Context())
	if err != nil || now.Now == "" || now.Next != now.Now || now.Domain != "" {
		t.Fatalf("%+v, %v", now, err)
	}
	if err := h.SetRegistryValue(t.Context(), tcpipParameters, nameNext,
		host.RegistryValue{Type: "string", String: "later"}); err != nil {
		t.Fatal(err)
	}
	later, err := h.HostName(t.Context())
	if err = errors.Join(err, h.DeleteRegistryValue(t.Context(), tcpipParameters, nameNext)); err != nil ||
		later.Now != now.Now || later.Next != "later" {
		t.Errorf("%+v, %v", later, err)
	}
}

// Without the DISM API, the host cannot ask; that does not mean that a feature is absent.
func TestFeatureWithoutDISM(t *testing.T) {
	was := dismInitialize
	defer func() { dismInitialize = was }()
	dismInitialize = windows.NewLazySystemDLL("nodejoin-no-such.dll").NewProc("DismInitialize")
	h := newHost(t)
	if _, err := h.Feature(t.Context(), "Containers"); err == nil || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, host.ErrUnsupported) {
		t.Errorf("read: %v", err)
	}
	if err := h.EnableFeature(t.Context(), "Containers"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("enable: %v", err)
	}
}
