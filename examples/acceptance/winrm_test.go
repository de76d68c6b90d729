package acceptance_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/netproxy"
	"nodejoin/examples/acceptance/internal/wine"
)

// winrmPassword is the environment variable with the password. Wine gets none of that name.
const winrmPassword = "NODEJOIN_TEST_WINRM_PASSWORD"

// TestJoinWinRM: a machine without an SSH server joins over WinRM as over SSH, and gets such a server. The connection
// is cut while an artifact is sent, then nodejoin is killed while the kubelet starts; the run after that finishes the
// join, and the next one has nothing to do. The password is in no process but nodejoin itself, and in no file of the
// machine or of the run. Then runs go over SSH, without WinRM, and a leave over WinRM removes everything, the SSH
// server too.
func TestJoinWinRM(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBedWith(ctx, t, startCluster(ctx, t), wine.Options{NoSSH: true})
	password := rand.Text()
	addr, digest := b.serveWinRM(ctx, t, password)
	before := b.everything(ctx)
	proxy, err := netproxy.Start(addr, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	v := b.variables(b.host.Port())
	v.Port = proxy.Port()
	args := v.with(t, b.winrmPlan(t, digest))
	t.Setenv(winrmPassword, password)

	cut, killed := false, false
	r := apply(ctx, t, args, func(e streamEvent, controller *os.Process) {
		switch {
		case e.State == "agent_in_shell":
			t.Error("the agent runs in the shell")
		case e.Type == "step_progress" && e.Step == "kubernetes_node" && e.Done > 8<<20 && !cut:
			wantNowhere(t, controller.Pid, password)
			proxy.Cut()
			cut = true
		case e.Type == "step_started" && e.Step == "kubelet" && !killed:
			wantNowhere(t, controller.Pid, password)
			controller.Kill()
			killed = true
		}
	})
	if !cut {
		t.Fatalf("no connection was cut: %s", r)
	}
	if !killed { // nodejoin gave up where it was cut
		if r.code != 4 {
			t.Fatalf("want exit code 4, or a run that goes on: %s", r)
		}
		r = apply(ctx, t, args, func(e streamEvent, controller *os.Process) {
			if e.Type == "step_started" && e.Step == "kubelet" {
				wantNowhere(t, controller.Pid, password)
				controller.Kill()
				killed = true
			}
		})
	}
	if !killed || r.code != -1 {
		t.Fatalf("nodejoin was not killed: %s", r)
	}
	last := mustApply(ctx, t, args)
	t.Logf("finished after %.1fs", last.took.Seconds())
	b.wantJoined(ctx)
	b.wantNoCredentialsLeft(ctx)
	wantNothing(ctx, t, args)
	if n := proxy.BytesToServer(); n > 4<<20 {
		t.Errorf("%d bytes went through WinRM, so the machine did not fetch the agent and the artifacts from nodejoin", n)
	}
	if strings.Contains(r.stderr+last.stderr, password) {
		t.Error("nodejoin prints the password")
	}
	if err := errors.Join(withoutText(b.host.Path(dataDir), password), withoutText(b.host.Path(`C:\var\log`), password),
		withoutText(b.host.Path(`C:\users`), password), withoutText(home(t), password)); err != nil {
		t.Error(err)
	}

	proxy.Close()
	b.wantSSHToo(ctx, last.stderr, v)
	_, port, _ := strings.Cut(addr, ":")
	if v.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	b.wantLeft(ctx, v.with(t, args[len(args)-1]), before)
}

// serveWinRM starts WinRM on the machine and returns its address and the digest of its certificate.
func (b *bed) serveWinRM(ctx context.Context, t *testing.T, password string) (addr, digest string) {
	t.Helper()
	const shell = `C:\windows\winrshost.exe`
	b.copyIn(goBuildIn(t, ".", "windows", "winrshost.exe", "build", "./winrshost"), shell)
	server := exec.CommandContext(ctx, goBuild(t, "linux", "winrmd", "build", "./steps/transport/winrmtest/winrmd"),
		b.host.Prefix, shell)
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	server.Env = b.host.Command(ctx, "cmd.exe").Env
	log, err := os.Create(filepath.Join(b.dir, "winrmd.log"))
	if err != nil {
		t.Fatal(err)
	}
	server.Stderr = log
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(server.Start(), log.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		_ = server.Wait()
	})
	if _, err := fmt.Fprintln(in, password); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanned := fmt.Sscan(line, &addr, &digest); scanned != nil {
		t.Fatalf("WinRM does not start: %v, %v", err, scanned)
	}
	return addr, digest
}

// winrmPlan is the example plan with connection "winrm" in place of SSH.
func (b *bed) winrmPlan(t *testing.T, digest string) string {
	t.Helper()
	key, err := os.ReadFile(b.host.Path(`C:\windows\authorized_keys`)) // the public half of b.host.Identity
	if err != nil {
		t.Fatal(err)
	}
	return b.planOver(fmt.Sprintf(`connection "winrm" {
    host               = each.value
    port               = var.port
    user               = var.user
    password_env       = %q
    certificate_sha256 = %q
    setup_ssh          = true
    ssh_public_key     = %q
    identity           = var.identity
  }`, winrmPassword, digest, bytes.TrimSpace(key)))
}

// wantNowhere checks that a text is in no argument and environment of a process but one, which has it in its
// environment.
func wantNowhere(t *testing.T, but int, text string) {
	t.Helper()
	found := false
	for _, what := range []string{"cmdline", "environ"} {
		files, err := filepath.Glob("/proc/[0-9]*/" + what)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(b, []byte(text)) {
				continue // it may have ended
			}
			if file == fmt.Sprintf("/proc/%d/environ", but) {
				found = true
				continue
			}
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			t.Errorf("the password is in %s of %q", file, line)
		}
	}
	if !found {
		t.Error("the password is not in the environment of nodejoin, so the search finds nothing")
	}
}

// withoutText checks that no file below root has a text, in UTF-8 or UTF-16. The folder may be missing.
func withoutText(root, text string) error {
	var wide []byte
	for _, c := range []byte(text) {
		wide = append(wide, c, 0)
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, 16<<20)) // a log; what is longer is a program
		if err == nil && (bytes.Contains(b, []byte(text)) || bytes.Contains(b, wide)) {
			return fmt.Errorf("%s: the password is in it", path)
		}
		return err
	})
}
