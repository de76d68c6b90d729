package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sys/unix"
)

// TestKilledAnywhere kills the commands that write plans, locks, mirrors and bundles before each of their operations
// on files and connections that change something, and then repeats them. After the kill each file is the old or the
// new one, whole. After the repetition all files are those of a run that was not killed: the same bytes, and no
// others.
//
// Commands that take long are killed at some of their operations only; NODEJOIN_KILLED=all is for each (10 minutes).
func TestKilledAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nodejoin some hundreds of times")
	}
	up := httptest.NewServer(http.FileServerFS(os.DirFS("../../examples/quickstart/mirror")))
	t.Cleanup(up.Close)
	host := newRegistry(t)
	pushPause(t, host+"/pause:3.10.2")
	for _, s := range []*killed{
		{name: "lock", args: "lock p", prepare: func(dir string) error {
			return os.Remove(dir + "/p/nodejoin.lock.hcl")
		}},
		{name: "lock with images", args: "lock --images p"},
		{name: "lock --upgrade", args: "lock --upgrade p", prepare: func(dir string) error {
			return change(dir+"/p/nodejoin.lock.hcl", `(sha256 +=) "....`, `$1 "0000`)
		}},
		{name: "mirror", args: "mirror p --to m", unfinished: ".part"},
		{name: "mirror in a registry", args: "mirror p --to oci://TARGET/m", every: 5,
			after: "mirror p --to oci://TARGET/m --check"},
		{name: "bundle", args: "bundle p -o b.tar --split 40MB", every: 4, unfinished: ".part",
			before: "lock --images p"},
		{name: "bundle is used", args: "validate b.tar", within: "/cache/", every: 9,
			before: "bundle p -o b.tar --no-images"},
		{name: "bundle --check", args: "bundle --check b.tar", within: "/nodejoin-check-", every: 15,
			before: "bundle p -o b.tar --no-images"},
		{name: "init", args: "init --name n --api-server https://192.0.2.1:6443 --host w=192.0.2.2 n",
			once: "/n/n.join.hcl", within: "/n/.nodejoin-write-"},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.T, s.up, s.host = t, up.URL, host
			if os.Getenv("NODEJOIN_KILLED") == "all" {
				s.every = 1
			}
			s.test()
		})
	}
}

// killed is a command that is killed.
type killed struct {
	*testing.T
	name, args string
	before     string             // a command that runs before
	after      string             // a command that must succeed after
	prepare    func(string) error // changes the folder
	unfinished string             // ends the names of files that a killed run may leave incomplete
	within     string             // begins their names
	once       string             // where this file is there, the command is done, and does not run again
	every      int                // of so many operations, it is killed at one; 0 = at each

	up, host, target string // servers of artifacts and of images, and a registry for one run and its repetition
}

func (k *killed) test() {
	template := k.folder()
	old := contents(k.T, template)
	clean := k.copied(template)
	k.run(clean, k.args)
	want := contents(k.T, clean)
	n := 1
	for ; ; n += max(1, k.every) {
		dir := k.copied(template)
		if !k.killBefore(n, dir) {
			break
		}
		for name, sum := range contents(k.T, dir) {
			incomplete := k.unfinished != "" && strings.HasSuffix(name, k.unfinished) ||
				k.within != "" && strings.HasPrefix(name, k.within)
			if sum != old[name] && sum != want[name] && want[name]+old[name] != "" && !incomplete {
				k.Errorf("killed before operation %d: %s is neither the old file nor the new one", n, name)
			}
		}
		if _, err := os.Stat(dir + k.once); k.once == "" || err != nil {
			k.run(dir, k.args)
		}
		if text := differences(contents(k.T, dir), want); text != "" {
			k.Fatalf("killed before operation %d, and repeated:\n%s", n, text)
		}
		if k.after != "" {
			k.run(dir, k.after)
		}
		if err := os.RemoveAll(dir); err != nil {
			k.Fatal(err)
		}
	}
	if n < 5 {
		k.Errorf("it has %d operations only", n-1)
	}
	k.Logf("it has about %d operations", n-1)
}

// folder has a plan whose artifacts a server has.
func (k *killed) folder() string {
	dir := k.TempDir()
	if err := copyExample(os.DirFS("../../examples/quickstart"), dir+"/p"); err != nil {
		k.Fatal(err)
	}
	plan := dir + "/p/quickstart.join.hcl"
	for _, err := range []error{
		change(plan, `version = "2.2.1" }`, "\n  version = \"2.2.1\"\n  pause_image = \""+k.host+"/pause:3.10.2\"\n}\n"+
			`artifact "flanneld" { url = "`+k.up+`/flanneld.exe" }`+"\n"+
			`artifact "kubernetes_node" { url = "`+k.up+`/kubernetes-node-windows-amd64.tar.gz" }`)} {
		if err != nil {
			k.Fatal(err)
		}
	}
	k.run(dir, "lock p")
	if k.before != "" {
		k.run(dir, k.before)
	}
	if k.prepare != nil {
		if err := k.prepare(dir); err != nil {
			k.Fatal(err)
		}
	}
	return dir
}

// change replaces a regular expression in a file.
func change(file, old, by string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	now := regexp.MustCompile(old).ReplaceAll(b, []byte(by))
	if bytes.Equal(now, b) {
		return fmt.Errorf("%s has no %s", file, old)
	}
	return os.WriteFile(file, now, 0o600)
}

// copied is a copy of a folder.
func (k *killed) copied(of string) string {
	dir, err := os.MkdirTemp(k.TempDir(), "")
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(of))
	}
	if err != nil {
		k.Fatal(err)
	}
	k.target = newRegistry(k.T)
	return dir
}

// contents are the digests of all files in a folder, and of its folders.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(p, dir)
		if err != nil || d.IsDir() {
			out[rel] = "folder"
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		out[rel] = fmt.Sprintf("%x", sum.Sum(nil))
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// differences names the files that differ.
func differences(have, want map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if want[name] == "" {
			fmt.Fprintf(&b, "%s is left\n", name)
		} else if want[name] != have[name] {
			fmt.Fprintf(&b, "%s has other bytes\n", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have[name] == "" {
			fmt.Fprintf(&b, "%s is missing\n", name)
		}
	}
	return b.String()
}

// command is nodejoin in a folder, where its home, its cache and its temporary files are, too.
func (k *killed) command(dir, args string) *exec.Cmd {
	cmd := exec.Command("nodejoin", strings.Fields(strings.ReplaceAll(args, "TARGET", k.target))...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir+"/home", "XDG_CACHE_HOME="+dir+"/cache", "TMPDIR="+dir, "TERM=dumb")
	return cmd
}

func (k *killed) run(dir, args string) {
	k.Helper()
	if out, err := k.command(dir, args).CombinedOutput(); err != nil {
		k.Fatalf("nodejoin %s: %v\n%s", args, err, out)
	}
}

// newRegistry is the address of a container registry on loopback.
func newRegistry(t *testing.T) string {
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// pushPause pushes an image for Windows.
func pushPause(t *testing.T, at string) {
	t.Helper()
	ref, err := name.ParseReference(at)
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
		Platform: &v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.20348.1"}}})
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	if err := remote.WriteIndex(ref, index, remote.WithTransport(transport)); err != nil {
		t.Fatal(err)
	}
}

// killBefore runs the command and kills it before its nth operation. It reports whether the command came so far.
func (k *killed) killBefore(n int, dir string) bool {
	k.Helper()
	cmd := k.command(dir, k.args)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		k.Skipf("no process can be traced here: %v", err)
	}
	pid := cmd.Process.Pid
	defer func() { _ = cmd.Process.Release() }()
	w := &watched{pid: pid, left: n}
	for begun := false; ; {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			k.Fatal(err)
		}
		if !status.Stopped() {
			if tid != pid {
				continue
			}
			if !w.killed && status.ExitStatus() != 0 {
				k.Fatalf("nodejoin %s: %v", k.args, status)
			}
			return w.killed
		}
		if !begun {
			begun = true
			if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|
				unix.PTRACE_O_EXITKILL); err != nil {
				k.Fatal(err)
			}
		}
		if err := unix.PtraceSyscall(tid, w.stopped(tid, status.StopSignal())); err != nil && err != unix.ESRCH {
			k.Fatal(err) // ESRCH: it was killed
		}
	}
}

// watched is a process that is killed before an operation that changes something.
type watched struct {
	pid, left int
	killed    bool
	last      string // the file of the operation before
	again     int    // how often that was written
}

// stopped is called when a thread has stopped. It returns the signal that the thread then gets, 0 = none.
func (w *watched) stopped(tid int, by syscall.Signal) int {
	switch by {
	case syscall.SIGTRAP, syscall.SIGSTOP: // a new program or thread
		return 0
	case syscall.SIGTRAP | 0x80: // PTRACE_O_TRACESYSGOOD
	default:
		return int(by)
	}
	if w.killed || !w.changes(tid) {
		return 0
	}
	if w.left--; w.left == 0 {
		w.killed = true
		_ = unix.Kill(w.pid, unix.SIGKILL) // it cannot have ended
	}
	return 0
}

// changes reports whether a thread is about to make a system call that changes a file, or sends something. Of many
// writes into the same file, the first and the second count: then it is there, and not complete.
func (w *watched) changes(tid int) bool {
	const entry = 1 // PTRACE_SYSCALL_INFO_ENTRY
	var call struct {
		op     uint8
		_      [7]byte
		_, _   uint64 // where the program is
		number uint64
		args   [6]uint64
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(call),
		uintptr(unsafe.Pointer(&call)), 0, 0)
	if errno != 0 || call.op != entry {
		return false
	}
	switch call.number {
	case unix.SYS_OPENAT:
		return call.args[2]&(unix.O_CREAT|unix.O_TRUNC) != 0
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_LINKAT, unix.SYS_FTRUNCATE,
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FSYNC, unix.SYS_CONNECT:
		return true
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_SENDTO, unix.SYS_SENDFILE, unix.SYS_SPLICE,
		unix.SYS_COPY_FILE_RANGE:
	default:
		return false
	}
	fd := call.args[0]
	if call.number == unix.SYS_SPLICE || call.number == unix.SYS_COPY_FILE_RANGE {
		fd = call.args[2]
	}
	file, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", w.pid, fd))
	if err != nil || !strings.HasPrefix(file, "/") && !strings.HasPrefix(file, "socket:") {
		return false // it wakes a thread
	}
	if file != w.last {
		w.last, w.again = file, 0
	}
	w.again++
	return w.again <= 2
}
