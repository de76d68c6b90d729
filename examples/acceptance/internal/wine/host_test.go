package wine

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"nodejoin/examples/acceptance/internal/components"
)

func componentSet(t *testing.T) *components.Set {
	t.Helper()
	dir, err := components.Dir()
	if err != nil {
		t.Fatal(err)
	}
	src, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	set := components.New(dir, src)
	stale, err := set.Stale()
	if err != nil {
		t.Fatal(err)
	}
	if len(stale) > 0 {
		t.Fatalf("not built, or older than the sources: %v; run examples/acceptance/run.sh", stale)
	}
	return set
}

func startHost(ctx context.Context, t *testing.T, o Options) *Host {
	t.Helper()
	o.Components, o.Dir = componentSet(t), t.TempDir()
	h, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("SSH server:\n%s", h.Log())
		}
	})
	return h
}

func dial(t *testing.T, h *Host, auth ssh.AuthMethod) (*ssh.Client, error) {
	t.Helper()
	c, err := ssh.Dial("tcp", h.Addr, &ssh.ClientConfig{User: h.User, Auth: []ssh.AuthMethod{auth},
		HostKeyCallback: ssh.FixedHostKey(h.HostKey), Timeout: 20 * time.Second})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func identity(t *testing.T, h *Host) ssh.AuthMethod {
	t.Helper()
	pem, err := os.ReadFile(h.Identity)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	return ssh.PublicKeys(key)
}

// TestHost checks what the tests of nodejoin rely on.
func TestHost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	h := startHost(ctx, t, Options{Password: "correct horse"})

	client, err := dial(t, h, identity(t, h))
	if err != nil {
		t.Fatal(err)
	}
	run := func(line, input string) (string, int) {
		t.Helper()
		s, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.Stdin = strings.NewReader(input)
		out, err := s.Output(line)
		var exit *ssh.ExitError
		if errors.As(err, &exit) {
			return string(out), exit.ExitStatus()
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return string(out), 0
	}

	t.Run("commands", func(t *testing.T) {
		for _, c := range []struct {
			line, input, want string
			code              int
		}{
			{line: `echo one& echo two`, want: "one\r\ntwo\r\n"},
			{line: `exit 7`, code: 7},
			{line: `"C:\windows\system32\cmd.exe" /c echo "a b"`, want: "\"a b\"\r\n"},
			{line: `C:\nowhere\agent.exe --serve`, code: 1},
			{line: `set /p x=& call echo read %x%`, input: "in\r\n"},
		} {
			out, code := run(c.line, c.input)
			if c.code == 0 && code != 0 || c.code != 0 && code == 0 || c.code > 1 && code != c.code {
				t.Errorf("%s: exit code %d, want %d", c.line, code, c.code)
			}
			if c.want != "" && out != c.want {
				t.Errorf("%s: %q, want %q", c.line, out, c.want)
			}
		}
	})

	t.Run("sftp", func(t *testing.T) {
		files, err := sftp.NewClient(client)
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		if err := files.MkdirAll("/C:/ProgramData/nodejoin"); err != nil {
			t.Fatal(err)
		}
		f, err := files.Create("/C:/ProgramData/nodejoin/x.part")
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Repeat("0123456789abcdef", 64<<10)
		if _, err := io.WriteString(f, want); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := files.PosixRename("/C:/ProgramData/nodejoin/x.part", "/C:/ProgramData/nodejoin/x"); err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(h.Path(`C:\ProgramData\nodejoin\x`))
		if err != nil || string(have) != want {
			t.Errorf("the file on the machine: %d bytes, %v", len(have), err)
		}
		if _, err := files.Stat("/C:/nowhere"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("stat of an absent file: %v", err)
		}
	})

	t.Run("logins", func(t *testing.T) {
		if _, err := dial(t, h, ssh.Password("correct horse")); err != nil {
			t.Errorf("right password: %v", err)
		}
		if _, err := dial(t, h, ssh.Password("wrong")); err == nil {
			t.Error("the wrong password was accepted")
		}
		_, other, err := newKey(filepath.Join(t.TempDir(), "k"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ssh.Dial("tcp", h.Addr, &ssh.ClientConfig{User: h.User, Auth: []ssh.AuthMethod{identity(t, h)},
			HostKeyCallback: ssh.FixedHostKey(other), Timeout: 20 * time.Second}); err == nil {
			t.Error("the host key is not the machine's own")
		}
	})

	t.Run("reboot", func(t *testing.T) {
		out, err := h.Run(ctx, "reg.exe", "add", `HKLM\Software\Test`, "/v", "kept", "/d", "yes", "/f")
		if err != nil {
			t.Fatal(err, out)
		}
		if err := h.Reboot(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := client.NewSession(); err == nil {
			t.Error("the connection survived the reboot")
		}
		out, err = h.Run(ctx, "reg.exe", "query", `HKLM\Software\Test`, "/v", "kept")
		if err != nil || !strings.Contains(out, "yes") {
			t.Errorf("the registry after a reboot: %q, %v", out, err)
		}
		if _, err := dial(t, h, identity(t, h)); err != nil {
			t.Errorf("login after a reboot: %v", err)
		}
	})
}

// session runs a line over SSH and returns what it printed.
func session(t *testing.T, client *ssh.Client, line string) (string, error) {
	t.Helper()
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.CombinedOutput(line)
	return string(out), err
}

// TestSession holds what Win32-OpenSSH does with the commands of a session.
func TestSession(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	h := startHost(ctx, t, Options{})
	client, err := dial(t, h, identity(t, h))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("job", func(t *testing.T) { testSessionJob(ctx, t, h, client) })
	t.Run("shells", func(t *testing.T) { testDefaultShells(ctx, t, h, client) })
}

// testSessionJob: what a shell leaves running ends with it.
func testSessionJob(ctx context.Context, t *testing.T, h *Host, client *ssh.Client) {
	const left = `C:\windows\left.port`
	out, err := session(t, client, `start /b C:\windows\winsshd.exe -listen 127.0.0.1:0 -port-file `+left+
		` -host-key C:\windows\ssh_host_key & ping -n 3 127.0.0.1 >nul & exit 5`)
	var exit *ssh.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 5 {
		t.Fatalf("%v: %s", err, out)
	}
	port, err := os.ReadFile(h.Path(left))
	if err != nil {
		t.Fatalf("the program did not start: %v", err)
	}
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+string(port))
		if err != nil {
			return
		}
		c.Close()
		select {
		case <-ctx.Done():
			t.Fatal("the program still runs after its shell has ended")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// testDefaultShells: bash removes backslashes, PowerShell prints its banner first, and both pass their handles to the
// program.
func testDefaultShells(ctx context.Context, t *testing.T, h *Host, client *ssh.Client) {
	for shell, lines := range map[string]map[string]string{
		`C:\windows\system32\bash.exe`: {
			`./system32/cmd.exe /c 'echo one'`: "one\r\n",
			`.\system32\cmd.exe /c echo one`:   "bash: command not found (2)\r\n",
		},
		`C:\windows\system32\pwsh.exe`: {
			`.\system32\cmd.exe /c echo one`: "Loading personal and system profiles took 812ms.\r\none\r\n",
		},
		`C:\windows\system32\cmd.exe`: {`.\system32\cmd.exe /c echo one`: "one\r\n"},
	} {
		if err := h.SetDefaultShell(ctx, shell); err != nil {
			t.Fatal(err)
		}
		for line, want := range lines {
			if out, _ := session(t, client, line); out != want {
				t.Errorf("%s: %s: %q, want %q", shell, line, out, want)
			}
		}
	}
}

// TestSSHInPublicNetwork: with a virtual switch the network is a public one, for which the rule that OpenSSH brings
// does not count; another rule does.
func TestSSHInPublicNetwork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	h := startHost(ctx, t, Options{})
	reached := func(want bool) {
		t.Helper()
		if c, err := dial(t, h, identity(t, h)); (err == nil) != want {
			t.Errorf("reached: %v, want %v: %v", err == nil, want, err)
		} else if c != nil {
			c.Close()
		}
	}
	reached(true)
	if err := h.SetSwitch("Ethernet"); err != nil {
		t.Fatal(err)
	}
	reached(false)
	if err := h.AdmitSSH(ctx); err != nil {
		t.Fatal(err)
	}
	reached(true)
}

// TestManualSSH: a machine whose sshd is started by hand does not answer after a boot.
func TestManualSSH(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	h := startHost(ctx, t, Options{})
	if err := h.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, h, identity(t, h)); err != nil {
		t.Fatal(err)
	}
	if out, err := h.Run(ctx, "reg.exe", "add", `HKLM\System\CurrentControlSet\Services\sshd`, "/v", "Start", "/t",
		"REG_DWORD", "/d", "3", "/f"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := h.Reboot(ctx); !errors.Is(err, ErrNoSSH) {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", h.Addr); err == nil {
		c.Close()
		t.Error("the SSH server answers")
	}
}
