package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/winrmtest"
	"nodejoin/steps/transport/wire"
)

const winrmPassword = "pass-wörd-7c1e"

// winrmMachine is a WinRM server whose commands run in a folder.
type winrmMachine struct {
	*winrmtest.Server
	home, drive string
}

// newWinRM starts a server; the options change how it runs commands.
func newWinRM(t testing.TB, options ...func(winrmtest.Run) winrmtest.Run) *winrmMachine {
	m := &winrmMachine{home: t.TempDir(), drive: t.TempDir()}
	run := winrmtest.Cmd(m.home, m.drive)
	for _, o := range options {
		run = o(run)
	}
	m.Server = winrmtest.New(t, "Administrator", winrmPassword, run)
	t.Setenv("TEST_WINRM", winrmPassword)
	return m
}

func (m *winrmMachine) config(addr string) WinRMConfig {
	host, port, _ := strings.Cut(addr, ":")
	n, _ := strconv.Atoi(port)
	return WinRMConfig{Target: Target{OS: "windows", DataDir: `C:\data`}, Host: host, Port: n, User: "Administrator",
		PasswordEnv: "TEST_WINRM", CertificateSHA256: m.SHA256, Timeout: 20 * time.Second}
}

// place puts the agent where nodejoin would carry it.
func (m *winrmMachine) place(t testing.TB) {
	t.Helper()
	self, digest, err := selfAgent(t.Context(), "windows", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	remote := newAgentFile(m.config(m.Addr).Target, "", digest).remote
	path := filepath.Join(m.home, strings.ReplaceAll(remote, `\`, "/"))
	b, err := os.ReadFile(self)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o700)); err != nil {
		t.Fatal(err)
	}
}

func (m *winrmMachine) dial(t testing.TB, c WinRMConfig) Conn {
	t.Helper()
	conn, err := DialWinRM(t.Context(), c, selfAgent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestWinRM is a whole run: the agent is carried in, checks, applies with an artifact and is removed by a leave.
func TestWinRM(t *testing.T) {
	m := newWinRM(t)
	req := directories(filepath.Join(m.drive, "made"), 30)
	src := artifact(t, 3<<20)
	var pushed []string
	c := m.config(m.Addr)
	c.Notify = func(state, _ string) { pushed = append(pushed, state) }
	conn := m.dial(t, c)
	if _, err := Do(t.Context(), conn, wire.Check, req, nil); err != nil {
		t.Fatal(err)
	}
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Fatal(err)
	}
	if err := stage(t.Context(), conn, artifact(t, 0), nil); err != nil {
		t.Fatal(err)
	}
	staged, err := os.ReadFile(filepath.Join(m.drive, "data", "blobs", src.SHA256))
	if want, _ := os.ReadFile(src.File); err != nil || string(staged) != string(want) {
		t.Fatalf("staged %d bytes, want %d: %v", len(staged), len(want), err)
	}
	events := 0
	reply, err := Do(t.Context(), conn, wire.Apply, req, func(event.Event) { events++ })
	if err != nil || len(reply.Changed) != 30 || events == 0 {
		t.Fatalf("%+v, %d events, %v", reply, events, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if n := m.Shells(); n != 0 {
		t.Errorf("%d shells are left", n)
	}
	if left, _ := filepath.Glob(filepath.Join(m.drive, "data", "blobs", "*")); len(left) != 0 {
		t.Errorf("left staged: %q", left)
	}

	conn = m.dial(t, c)
	check, err := Do(t.Context(), conn, wire.Check, req, nil)
	if err != nil || check.Mutations != 0 {
		t.Fatalf("%+v, %v", check, err)
	}
	if strings.Join(pushed, " ") != "pushing_agent agent_sent" {
		t.Errorf("phases: %q, want one push", pushed)
	}
	keys := executor.LeaveRequest{}
	if _, err := Do(t.Context(), conn, wire.Leave, keys, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Forget(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(m.home, ".nodejoin")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the agent's folder is left: %v", err)
	}
}

// TestWinRMCut: a lost connection in the middle of a step is ErrDropped. The agent is not killed with the shell, but
// ends the step in its own way, and the next connection works.
func TestWinRMCut(t *testing.T) {
	m := newWinRM(t)
	p := sshtest.NewProxy(t, m.Addr, 0)
	c := m.config(p.Addr)
	conn := m.dial(t, c)
	slow, over := slowStep(m.drive), make(chan struct{})
	_, err := Do(t.Context(), conn, wire.Apply, slow, func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			p.Cut()
			go func() { // a request that had not begun takes another connection
				again := time.NewTicker(time.Second)
				defer again.Stop()
				for {
					select {
					case <-over:
						return
					case <-again.C:
						p.Cut()
					}
				}
			}()
		}
	})
	close(over)
	if !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	_ = conn.Close()
	until(t, "the shell of the lost connection ends", func() bool { return m.Shells() == 0 })
	until(t, "the agent gives up its step", func() bool {
		_, err := os.Stat(filepath.Join(m.drive, "slow.given-up"))
		return err == nil
	})
	req := directories(filepath.Join(m.drive, "made"), 3)
	if reply, err := Do(t.Context(), m.dial(t, c), wire.Apply, req, nil); err != nil || len(reply.Changed) != 3 {
		t.Fatalf("%+v, %v", reply, err)
	}
}

// TestWinRMInShell: an agent that cannot leave the shell works, and the run says so.
func TestWinRMInShell(t *testing.T) {
	m := newWinRM(t)
	const why = "the job lets \x1b[31mno process out"
	if err := os.Mkdir(filepath.Join(m.drive, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(m.drive, "data", "inside"), why)
	var said []string
	c := m.config(m.Addr)
	c.Notify = func(state, detail string) { said = append(said, state+": "+detail) }
	if _, err := Do(t.Context(), m.dial(t, c), wire.Check, directories(m.drive, 1), nil); err != nil {
		t.Fatal(err)
	}
	want := "agent_in_shell: " + hosttext.Line(why)
	if !slices.Contains(said, want) || strings.Contains(want, "\x1b") {
		t.Errorf("said %q, want %q", said, want)
	}
}

// TestWinRMOtherAgent: a program in the agent's place that says another digest is ended and replaced.
func TestWinRMOtherAgent(t *testing.T) {
	m := newWinRM(t)
	self, digest, err := selfAgent(t.Context(), "windows", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	c := m.config(m.Addr)
	b, err := os.ReadFile(self)
	path := filepath.Join(m.home, strings.ReplaceAll(newAgentFile(c.Target, "", digest).remote, `\`, "/"))
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700),
		os.WriteFile(path, append(b, 0), 0o700)); err != nil {
		t.Fatal(err)
	}
	req := directories(filepath.Join(m.drive, "made"), 1)
	if _, err := Do(t.Context(), m.dial(t, c), wire.Check, req, nil); err != nil {
		t.Fatal(err)
	}
	if have, err := fileDigest(path); err != nil || have != digest {
		t.Errorf("the agent on the machine has digest %s (%v), want %s", have, err, digest)
	}
}

// TestWinRMNoTar: a machine without tar.exe is an error that says so, not what became of the bytes that were sent.
func TestWinRMNoTar(t *testing.T) {
	m := newWinRM(t, func(run winrmtest.Run) winrmtest.Run {
		return func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
			return run(ctx, strings.Replace(line, "tar.exe", "notar.exe", 1), in, out, errs)
		}
	})
	_, err := Do(t.Context(), m.dial(t, m.config(m.Addr)), wire.Check, directories(m.drive, 1), nil)
	var ce *ConnectError
	if !errors.As(err, &ce) || ce.Reason != ReasonAgent || !strings.Contains(ce.Detail, "is not recognized") ||
		!strings.Contains(ce.Remedy, "tar.exe") {
		t.Fatalf("%v, want a ConnectError with what the machine said", err)
	}
}

// TestWinRMCrash: the wait for the file of a crash is bounded.
func TestWinRMCrash(t *testing.T) {
	crash := make(chan struct{})
	m := newWinRM(t, func(run winrmtest.Run) winrmtest.Run {
		return func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
			switch {
			case strings.HasPrefix(line, "type "):
				<-ctx.Done()
			case strings.Contains(line, " outside "):
				agent, kill := context.WithCancel(ctx)
				defer kill()
				go func() { // ends with the command
					select {
					case <-crash:
						kill()
					case <-agent.Done():
					}
				}()
				return run(agent, line, in, out, errs)
			}
			return run(ctx, line, in, out, errs)
		}
	})
	c := m.config(m.Addr)
	c.Bounds = func(method string, b wire.Bound) wire.Bound {
		if method == "read the file of a crash" {
			b.Within = 100 * time.Millisecond
		}
		return b
	}
	_, err := Do(t.Context(), m.dial(t, c), wire.Apply, slowStep(m.drive), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			close(crash)
		}
	})
	if !errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), "exit status 1") {
		t.Fatalf("%v, want ErrDropped with the exit status", err)
	}
}

// TestWinRMRemoveAgents: a leave removes what interrupted pushes left, over WinRM or over SSH, and an empty folder. A
// folder that cannot be asked for is not absent.
func TestWinRMRemoveAgents(t *testing.T) {
	m := newWinRM(t)
	conn := m.dial(t, m.config(m.Addr)).(*winrmConn)
	dir := filepath.Join(m.home, ".nodejoin", "agent")
	for name, put := range map[string]func() error{
		"none":  func() error { return nil },
		"empty": func() error { return os.MkdirAll(dir, 0o700) },
		"left": func() error {
			name := filepath.Join(dir, wire.AgentPrefix+"0123456789abcdef.exe")
			return errors.Join(os.MkdirAll(name+wire.Leftover, 0o700),
				os.WriteFile(filepath.Join(name+wire.Leftover, "agent"), nil, 0o600),
				os.WriteFile(name+".6y7khioz"+wire.Leftover, nil, 0o600), os.WriteFile(name, nil, 0o600))
		},
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if err := conn.removeAgents(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Dir(dir)); name != "none" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the folder is left: %v", name, err)
		}
	}
	if err := conn.shell.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := conn.removeAgents(t.Context()); err == nil {
		t.Error("a machine that does not say whether there are agents has none")
	}
}

// TestWinRMPushInterrupted: what a push that was cut off left is finished by the next.
func TestWinRMPushInterrupted(t *testing.T) {
	m := newWinRM(t)
	digest, err := selfDigest()
	if err != nil {
		t.Fatal(err)
	}
	c := m.config(m.Addr)
	f := newAgentFile(c.Target, "", digest)
	temp := filepath.Join(m.home, strings.ReplaceAll(f.remote, `\`, "/")+wire.Leftover)
	if err := os.MkdirAll(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(temp, "agent"), "half of it")

	conn := m.dial(t, c)
	if _, err := Do(t.Context(), conn, wire.Check, directories(filepath.Join(m.drive, "made"), 1), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", temp, err)
	}
}

// wantLogin: a login works, or is refused for a reason, with an error that does not have the password. reason "" = it
// works.
func (m *winrmMachine) wantLogin(t *testing.T, c WinRMConfig, reason Reason, says string) {
	t.Helper()
	conn, err := DialWinRM(t.Context(), c, selfAgent)
	if err == nil {
		_, err = Do(t.Context(), conn, wire.Check, directories(filepath.Join(m.drive, "made"), 1), nil)
		_ = conn.Close()
	}
	var ce *ConnectError
	switch {
	case reason == "" && err != nil, reason != "" && !errors.As(err, &ce):
		t.Fatalf("have %v, want reason %q", err, reason)
	case reason == "":
	case ce.Reason != reason || !strings.Contains(ce.Error(), says) || ce.Remedy == "":
		t.Errorf("have %s %v; %s; want %s with %q", ce.Reason, ce, ce.Remedy, reason, says)
	case strings.Contains(ce.Error()+ce.Remedy, winrmPassword):
		t.Error("the error contains the password")
	}
}

// TestWinRMRefused: each machine that must not be used, or does not let us in, has its reason.
func TestWinRMRefused(t *testing.T) {
	m := newWinRM(t)
	ca := writeText(t, filepath.Join(t.TempDir(), "ca.pem"), string(m.CA))
	other := newWinRM(t)
	foreign := writeText(t, filepath.Join(t.TempDir(), "ca.pem"), string(other.CA))
	ssh := newMachine(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for name, tt := range map[string]struct {
		change func(*WinRMConfig)
		reason Reason // "" = it is accepted
		says   string
	}{
		"pin":         {func(*WinRMConfig) {}, "", ""},
		"CA":          {func(c *WinRMConfig) { c.CertificateSHA256, c.CAFile = "", ca }, "", ""},
		"domain user": {func(c *WinRMConfig) { c.User = `CORP\Administrator` }, "", ""},
		"wrong pin":   {func(c *WinRMConfig) { c.CertificateSHA256 = other.SHA256 }, ReasonHostKey, m.SHA256},
		"unknown CA":  {func(c *WinRMConfig) { c.CertificateSHA256 = "" }, ReasonHostKey, m.SHA256},
		"other CA":    {func(c *WinRMConfig) { c.CertificateSHA256, c.CAFile = "", foreign }, ReasonHostKey, m.SHA256},
		"other name": {func(c *WinRMConfig) { c.CertificateSHA256, c.CAFile, c.Host = "", ca, "localhost" },
			ReasonHostKey, "localhost"},
		"no CA file":     {func(c *WinRMConfig) { c.CertificateSHA256, c.CAFile = "", ca+".no" }, ReasonKey, ca + ".no"},
		"no password":    {func(c *WinRMConfig) { c.PasswordEnv = "TEST_NONE" }, ReasonAuth, "TEST_NONE"},
		"wrong user":     {func(c *WinRMConfig) { c.User = "guest" }, ReasonAuth, "refused"},
		"wrong password": {func(c *WinRMConfig) { c.PasswordEnv = "TEST_WRONG" }, ReasonAuth, "refused"},
		"not WinRM": {func(c *WinRMConfig) { c.Port = m.config(ssh.addr).Port }, ReasonUnreachable,
			"does not speak HTTPS"},
		"HTTP": {func(c *WinRMConfig) { c.Port = m.config(plain.Listener.Addr().String()).Port }, ReasonUnreachable,
			"does not speak HTTPS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TEST_WRONG", "another")
			c := m.config(m.Addr)
			tt.change(&c)
			m.wantLogin(t, c, tt.reason, tt.says)
		})
	}
}

// TestWinRMSilent: a machine that stops answering is given up within two signs of life.
func TestWinRMSilent(t *testing.T) {
	m := newWinRM(t)
	c := m.config(m.Addr)
	c.KeepAlive = 200 * time.Millisecond
	c.Bounds = func(method string, b wire.Bound) wire.Bound {
		if method == "end the shell" {
			b.Within = 100 * time.Millisecond
		}
		return b
	}
	conn := m.dial(t, c)
	_, err := Do(t.Context(), conn, wire.Apply, slowStep(m.drive), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			m.Freeze()
		}
	})
	if !errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), "no sign of life") {
		t.Fatalf("%v, want ErrDropped for want of a sign of life", err)
	}
}

// TestWinRMCancel: a cancelled call ends the step on the machine.
func TestWinRMCancel(t *testing.T) {
	m := newWinRM(t)
	conn := m.dial(t, m.config(m.Addr))
	ctx, cancel := context.WithCancel(t.Context())
	reply, err := Do(ctx, conn, wire.Apply, slowStep(m.drive), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			cancel()
		}
	})
	if err != nil || reply.Err == nil || reply.Err.Code != steps.CodeInterrupted {
		t.Fatalf("%+v, %v, want the agent's reply: interrupted", reply, err)
	}
	if _, err := os.Stat(filepath.Join(m.drive, "slow.given-up")); err != nil {
		t.Errorf("the step was not given up: %v", err)
	}
}

// TestWinRMStrangeProgram: a program in the agent's place that says it is not there, as only a Linux machine is asked
// to, and then more, does not keep the connection from its end.
func TestWinRMStrangeProgram(t *testing.T) {
	served := false
	m := newWinRM(t, func(run winrmtest.Run) winrmtest.Run {
		return func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
			if strings.Contains(line, " outside ") && !served {
				served = true
				for _, text := range []string{wire.NoAgent, "more", "and more"} {
					_, _ = io.WriteString(out, text+"\r\n")
					time.Sleep(100 * time.Millisecond) // in messages of their own
				}
			}
			return run(ctx, line, in, out, errs)
		}
	})
	conn := m.dial(t, m.config(m.Addr))
	if _, err := Do(t.Context(), conn, wire.Check, directories(m.drive, 1), nil); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- conn.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the connection has not ended after 20s")
	}
}
