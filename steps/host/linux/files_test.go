//go:build linux

package linux

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// The access to a written file does not depend on the umask.
func TestUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	h, ctx, dir := newHost(t), testContext(t), t.TempDir()
	path := filepath.Join(dir, "a", "b", "f")
	if err := h.WriteFile(ctx, path, strings.NewReader("x"), host.WriteOptions{Access: host.AccessProgram}); err != nil {
		t.Fatal(err)
	}
	if err := h.CreateExclusive(ctx, path+"x", nil); err != nil {
		t.Fatal(err)
	}
	if err := h.SetMachineEnv(ctx, "A", "b"); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]fs.FileMode{
		path: 0o755, path + "x": 0o644, filepath.Dir(path): 0o755 | fs.ModeDir, filepath.Join(dir, "a"): 0o755 | fs.ModeDir,
		h.envFile: 0o644,
	} {
		if info, err := os.Stat(p); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", p, info.Mode(), err, want)
		}
	}
}

func TestAccessOf(t *testing.T) {
	for mode, want := range map[fs.FileMode]host.Access{
		0o600: host.AccessPrivate, 0o400: host.AccessPrivate, 0o700: host.AccessPrivate, 0o640: host.AccessDefault,
		0o604: host.AccessDefault,
		0o644: host.AccessDefault, 0o755: host.AccessProgram, 0o750: host.AccessProgram, 0o622: host.AccessDefault,
		fs.ModeDir | 0o700: host.AccessPrivate, fs.ModeDir | 0o755: host.AccessDefault,
		fs.ModeDir | 0o711: host.AccessDefault,
	} {
		if have := accessOf(mode); have != want {
			t.Errorf("%v: %q, want %q", mode, have, want)
		}
	}
}

// A program that nodejoin did not start counts as in use, too, even by another name of
// its file.
func TestForeignProgramIsBusy(t *testing.T) {
	h, ctx, dir := newHost(t), testContext(t), t.TempDir()
	from, err := os.Open(self(t))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path, other := filepath.Join(dir, "program"), filepath.Join(dir, "other")
	if err := h.WriteFile(ctx, path, from, host.WriteOptions{Access: host.AccessProgram}); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, serveArg)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for _, p := range []string{path, other} {
		err := h.Remove(ctx, p)
		if !errors.Is(err, host.ErrBusy) {
			t.Errorf("remove %s: %v", p, err)
		}
	}
	// As on Windows, its file may be moved away.
	if err := h.Rename(ctx, path, path+".away"); err != nil {
		t.Errorf("move away: %v", err)
	}
	if err := h.WriteFile(ctx, path, strings.NewReader("new"), host.WriteOptions{}); err != nil {
		t.Errorf("write in its place: %v", err)
	}
}

func TestErrorKinds(t *testing.T) {
	for code, want := range map[syscall.Errno]error{
		syscall.ENOSPC: host.ErrNoSpace, syscall.EDQUOT: host.ErrNoSpace, syscall.ETXTBSY: host.ErrBusy,
		syscall.ENOENT: fs.ErrNotExist, syscall.EACCES: fs.ErrPermission,
	} {
		err := failed("write file", "/f", &fs.PathError{Op: "write", Path: "/f", Err: code})
		if !errors.Is(err, want) || !errors.Is(err, code) || strings.Count(err.Error(), "/f") != 1 {
			t.Errorf("%v: %v", code, err)
		}
	}
	if failed("x", "y", nil) != nil {
		t.Error("nil became an error")
	}
}

// A full volume is ErrNoSpace, and nothing of the file is left.
func TestNoSpace(t *testing.T) {
	h, ctx, dir := newHost(t), testContext(t), t.TempDir()
	if err := unix.Mount("nodejoin-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		skip(t, "no volume to fill: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	err := h.WriteFile(ctx, filepath.Join(dir, "f"), strings.NewReader(strings.Repeat("x", 1<<20)), host.WriteOptions{})
	if !errors.Is(err, host.ErrNoSpace) {
		t.Errorf("%v", err)
	}
	if entries, err := h.List(ctx, dir); err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
	if n, err := h.FreeBytes(ctx, filepath.Join(dir, "a", "b")); err != nil || n == 0 || n > 64<<10 {
		t.Errorf("%d %v", n, err)
	}
}

// Mounts below a folder are listed in order and can be unmounted; one in use is
// ErrBusy.
func TestUnmount(t *testing.T) {
	h, ctx, dir := newHost(t), testContext(t), t.TempDir()
	outer := filepath.Join(dir, "down", "a b")
	for _, at := range []string{outer, filepath.Join(outer, "inner"), filepath.Join(dir, "downtown")} {
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("nodejoin-test", at, "tmpfs", 0, "size=64k"); err != nil {
			skip(t, "nothing can be mounted: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	f, err := os.Create(filepath.Join(outer, "open"))
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := h.Mounts(ctx, filepath.Join(dir, "down"))
	if err != nil || !slices.Equal(mounts, []string{outer, filepath.Join(outer, "inner")}) {
		t.Fatalf("mounts %q, %v", mounts, err)
	}
	if err := h.Unmount(ctx, mounts[1]); err != nil {
		t.Error(err)
	}
	if err := h.Unmount(ctx, outer); !errors.Is(err, host.ErrBusy) {
		t.Errorf("in use: %v", err)
	}
	f.Close()
	for range 2 { // the second time nothing is mounted there
		if err := h.Unmount(ctx, outer); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(outer); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	if err := os.Remove(filepath.Join(dir, "downtown")); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a mount beside it was unmounted: %v", err)
	}
}

// Reading an endless file ends.
func TestOpenFifo(t *testing.T) {
	h, path := newHost(t), filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(testContext(t), 10*time.Second)
	defer cancel()
	f, err := h.Open(ctx, path)
	if err == nil {
		err = f.Close()
	}
	if err != nil && ctx.Err() != nil {
		t.Error(err)
	}
}

func TestEnvKeepsOtherLines(t *testing.T) {
	h, ctx := newHost(t), testContext(t)
	const before = "# proxies\n\nexport A=\"one two\"\nB='x'\nA=later\nnot a setting\n"
	if err := os.WriteFile(h.envFile, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	file := func(step, want string) {
		t.Helper()
		have, err := os.ReadFile(h.envFile)
		if diff := cmp.Diff(want, string(have)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +have):\n%s", step, err, diff)
		}
	}
	for name, want := range map[string]string{"A": "later", "B": "x"} {
		if have, err := h.MachineEnv(ctx, name); err != nil || have != want {
			t.Errorf("%s: %q %v", name, have, err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.UnsetMachineEnv(ctx, "C"))
	file("nothing to do", before)
	must(h.SetMachineEnv(ctx, "A", "new value"))
	file("set", "# proxies\n\nA=\"new value\"\nB='x'\nnot a setting\n")
	must(h.SetMachineEnv(ctx, "C", `"q"`))
	file("added", "# proxies\n\nA=\"new value\"\nB='x'\nnot a setting\nC=\"\"q\"\"\n")
	must(h.UnsetMachineEnv(ctx, "A"))
	must(h.UnsetMachineEnv(ctx, "C"))
	file("unset", "# proxies\n\nB='x'\nnot a setting\n")
	for _, value := range []string{"a\nb", "a\x00"} {
		if err := h.SetMachineEnv(ctx, "A", value); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestDefaultInterface(t *testing.T) {
	const head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
	for _, test := range []struct{ table, want string }{
		{head, ""},
		{head + "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", ""},
		{head +
			"wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n" +
			"eth1\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n", "eth1"},
		{head + "eth0\t00000000\t010200C0\t0002\t0\t0\t0\t00000000\t0\t0\t0\n", ""},
		{head + "vpn0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n", ""},
		{head +
			"*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n" +
			"eth0\t00000000\t010200C0\t0003\t0\t0\t10\t00000000\t0\t0\t0\n", "eth0"},
	} {
		if have, err := defaultInterface([]byte(test.table)); err != nil || have != test.want {
			t.Errorf("%q %v, want %q of\n%s", have, err, test.want, test.table)
		}
	}
}

func TestFacts(t *testing.T) {
	h := newHost(t)
	f, err := h.Facts(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", f)
	if f.OS != "linux" || f.Admin != (os.Geteuid() == 0) || f.DataDir != h.dataDir {
		t.Errorf("%+v", f)
	}
	if _, err := New(Options{DataDir: "relative"}); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("relative data folder: %v", err)
	}
}

// skip skips a test that this machine cannot run. With NODEJOIN_REQUIRE=1 the test
// fails instead: a test that did not run has not passed.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("NODEJOIN_REQUIRE") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// A private file belongs to root or to the user of this process: another owner could open it again.
func TestPrivateIncludesTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of another user")
	}
	const nobody = 65534
	h, ctx, dir := newHost(t), testContext(t), t.TempDir()
	folder, file := filepath.Join(dir, "folder"), filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(file, nil, 0o600), os.Chown(folder, nobody, nobody),
		os.Chown(file, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	look := func(path string, access host.Access, open bool) {
		t.Helper()
		if fi, err := h.Stat(ctx, path); err != nil || fi.Access != access || fi.Open != open {
			t.Errorf("%s: %+v, %v; want access %q, open %v", filepath.Base(path), fi, err, access, open)
		}
	}
	look(folder, host.AccessDefault, true)
	look(file, host.AccessDefault, true)
	if err := errors.Join(h.Mkdir(ctx, folder, host.AccessPrivate),
		h.SetAccess(ctx, file, host.AccessPrivate)); err != nil {
		t.Fatal(err)
	}
	look(folder, host.AccessPrivate, false)
	look(file, host.AccessPrivate, false)

	link := filepath.Join(dir, "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	look(link, host.AccessPrivate, false)
	if err := os.Lchown(link, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	look(link, host.AccessPrivate, true)
	for _, err := range []error{h.Mkdir(ctx, link, host.AccessPrivate), h.SetAccess(ctx, link, host.AccessPrivate)} {
		if !errors.Is(err, host.ErrForeign) {
			t.Errorf("through the link of another user: %v", err)
		}
	}
	for mode, open := range map[fs.FileMode]bool{0o755: false, 0o775: true, 0o757: true, 0o1777: true} {
		if err := errors.Join(os.Chown(folder, 0, nobody), unix.Chmod(folder, uint32(mode))); err != nil {
			t.Fatal(err)
		}
		look(folder, host.AccessDefault, open)
	}
}
