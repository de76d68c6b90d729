package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"

	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/transport/agent"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// The variables of testSudo.
const (
	sudoRule  = "NODEJOIN_TEST_SUDO"       // "nopasswd", "password", "denied" after the password, "mute"
	sudoNotes = "NODEJOIN_TEST_SUDO_NOTES" // file that records each start
	testPass  = "pass word ☃"
)

// becomeInTest makes the test program act as an agent without root's rights, or as sudo. The acceptance tests use the
// real sudo.
func becomeInTest() {
	if name := filepath.Base(os.Args[0]); name == "sudo" || name == "doas" {
		os.Exit(testSudo())
	}
	if len(os.Args) < 4 || os.Args[1] != "become" {
		return
	}
	program, err := os.Executable()
	if err == nil {
		owner := os.Getuid()
		if owner == 0 {
			owner = 65534 // any user trusts root's files; artifacts come through the inbox
		}
		err = agent.Become{Method: os.Args[2], Password: len(os.Args) == 5, Program: program,
			Args: []string{"serve", os.Args[3], strconv.Itoa(owner)},
			In:   os.Stdin, Out: os.Stdout, Err: os.Stderr}.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// testSudo takes the options of sudo that the agent uses, and behaves as its manual says: -n fails where a password
// is needed, -S reads it as a line of standard input, byte by byte, after the prompt of -p on standard error.
func testSudo() int {
	parent, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", os.Getppid()))
	note, err := json.Marshal([]string{strings.Join(os.Args, " "), string(parent), strings.Join(os.Environ(), "\n")})
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(os.Getenv(sudoNotes), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = f.Write(append(note, '\n'))
	_ = f.Close()
	i := slices.Index(os.Args, "--")
	run := func() int {
		panic(syscall.Exec(os.Args[i+1], os.Args[i+1:], os.Environ()))
	}
	rule := os.Getenv(sudoRule)
	switch {
	case rule == "nopasswd":
		return run()
	case rule == "mute":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 1
	case os.Args[1] == "-n":
		fmt.Fprintln(os.Stderr, "sudo: a password is required")
		return 1
	}
	fmt.Fprintln(os.Stderr, "We trust you have received the usual lecture.")
	for try := range 3 {
		if try > 0 {
			fmt.Fprintln(os.Stderr, "Sorry, try again.")
		}
		fmt.Fprint(os.Stderr, os.Args[3])
		line, err := bufio.NewReaderSize(oneByte{os.Stdin}, 16).ReadString('\n')
		if err != nil {
			fmt.Fprintln(os.Stderr, "sudo: no password was provided")
			return 1
		}
		if line != testPass+"\n" {
			continue
		}
		if rule == "denied" {
			fmt.Fprintln(os.Stderr, "deploy is not in the sudoers file.")
			return 1
		}
		return run()
	}
	return 1
}

// oneByte reads one byte at a time, so that it takes nothing from the program that reads next.
type oneByte struct{ io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.Reader.Read(p[:1]) }

// becoming is a machine whose user gets root's rights through testSudo, and the record of its starts.
func becomingMachine(t *testing.T, rule string) (m *machine, starts func() [][]string) {
	t.Helper()
	m = newMachine(t)
	bin := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sudo", "doas"} {
		if err := os.Symlink(exe, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	notes := filepath.Join(t.TempDir(), "notes")
	t.Setenv(sudoNotes, notes)
	t.Setenv(sudoRule, rule)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return m, func() (all [][]string) {
		b, _ := os.ReadFile(notes)
		for line := range strings.Lines(string(b)) {
			var start []string
			if err := json.Unmarshal([]byte(line), &start); err != nil {
				t.Fatal(err)
			}
			all = append(all, start)
		}
		return all
	}
}

func TestBecome(t *testing.T) {
	for _, c := range []struct {
		rule, method, password string
		starts                 int
		reason                 Reason
		says                   []string
	}{
		{"nopasswd", "sudo", "", 1, "", nil},
		{"nopasswd", "sudo", testPass, 1, "", nil},
		{"nopasswd", "doas", "", 1, "", nil},
		{"password", "sudo", testPass, 2, "", nil},
		{"password", "sudo", "", 1, ReasonAuth, []string{"without a password", "a password is required", "password_env"}},
		{"password", "doas", "", 1, ReasonAuth, []string{"doas does not run the agent without a password", "nopass"}},
		{"password", "sudo", "not this one", 2, ReasonAuth,
			[]string{"refuses the password", "TEST_BECOME", "one wrong try"}},
		{"denied", "sudo", testPass, 2, ReasonAuth, []string{"sudo does not run the agent", "not in the sudoers file"}},
		{"nopasswd", "no-such-sudo", "", 0, ReasonAgent, []string{"there is no no-such-sudo"}},
	} {
		t.Run(c.rule+" "+c.method+" "+c.password, func(t *testing.T) {
			m, starts := becomingMachine(t, c.rule)
			config := m.config(m.addr)
			config.Become = &Become{Method: c.method}
			if c.password != "" {
				config.Become.PasswordEnv = "TEST_BECOME"
				t.Setenv("TEST_BECOME", c.password)
			}
			pushes := 0
			config.Notify = func(state, _ string) {
				if state == "pushing_agent" {
					pushes++
				}
			}
			dir := t.TempDir()
			agents, files := AgentSource(selfAgent), atomic.Int32{}
			m.SubsystemHandlers["sftp"] = func(s gssh.Session) {
				files.Add(1)
				sshtest.ServeSFTP(s, m.home)
			}
			if c.reason == "" { // packed, into a folder of a group
				agents = packedAgent(t, "linux")
				if err := os.Chmod(m.home, 0o700|fs.ModeSetgid); err != nil {
					t.Fatal(err)
				}
			}
			// The machine's programs must not inherit the variable from this process.
			m.Handler = func(s gssh.Session) {
				m.sessions.Add(1)
				defer m.sessions.Done()
				sshtest.RunLine(s, m.home, "unset TEST_BECOME; "+s.RawCommand())
			}
			conn, err := DialSSH(t.Context(), config, agents)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			reply, err := Do(t.Context(), conn, wire.Apply, directories(dir, 3), func(event.Event) {})
			if c.reason == "" && (err != nil || len(reply.Changed) != 3) {
				t.Fatalf("%+v, %v", reply, err)
			}
			var ce *ConnectError
			if c.reason != "" {
				if !errors.As(err, &ce) {
					t.Fatalf("%v is not a ConnectError", err)
				}
				wantError(t, ce, c.reason, c.says...)
			}
			if have := starts(); len(have) != c.starts {
				t.Errorf("%d starts of %s, want %d: %q", len(have), c.method, c.starts, have)
			}
			for _, s := range starts() {
				if c.password != "" && strings.Contains(strings.Join(s, "\n"), c.password) {
					t.Errorf("the password is in an argument or in the environment: %q", s)
				}
			}
			if c.password != "" && err != nil && strings.Contains(fmt.Sprintf("%+v", ce), c.password) {
				t.Errorf("the error contains the password: %+v", ce)
			}
			if pushes != 1 || files.Load() > 0 && c.reason == "" {
				t.Errorf("the agent was pushed %d times, %d by SFTP", pushes, files.Load())
			}
		})
	}
}

// TestBecomeTrips: a no-op run costs as many round trips as it does for root, and one more if sudo asks for a
// password.
func TestBecomeTrips(t *testing.T) {
	m, _ := becomingMachine(t, "password")
	t.Setenv("TEST_BECOME", testPass)
	m.place(t)
	once := func(b *Become) int64 {
		p := sshtest.NewProxy(t, m.addr, 20*time.Millisecond)
		c := m.config(p.Addr)
		c.Become = b
		if _, err := Do(t.Context(), m.dial(t, c), wire.Check, directories(t.TempDir(), 40), nil); err != nil {
			t.Fatal(err)
		}
		return p.Trips.Load()
	}
	trips := func(b *Become) int64 { // the least counts: on a busy machine what is sent together may arrive apart
		return min(once(b), once(b), once(b))
	}
	root := trips(nil)
	asked := trips(&Become{Method: "sudo", PasswordEnv: "TEST_BECOME"})
	t.Setenv(sudoRule, "nopasswd")
	unasked := trips(&Become{Method: "sudo", PasswordEnv: "TEST_BECOME"})
	t.Logf("round trips: root %d, sudo %d, with a password %d", root, unasked, asked)
	if unasked > root || asked > root+1 {
		t.Errorf("round trips: root %d, sudo %d, with a password %d", root, unasked, asked)
	}
}

// TestBecomePlace: root runs nothing that others could have put in the agent's place.
func TestBecomePlace(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(m *machine, program string) error
		reason Reason // "" = nodejoin fixes it
		says   string
	}{
		"another program": {func(_ *machine, p string) error {
			return os.WriteFile(p, []byte("#!/bin/sh\ntouch \"$0.ran\"\n"), 0o700)
		}, "", ""},
		"a link": {func(m *machine, p string) error {
			exe, err := os.Executable()
			return errors.Join(err, os.Remove(p), os.Symlink(exe, p))
		}, "", ""},
		"open folder":  {func(_ *machine, p string) error { return os.Chmod(filepath.Dir(p), 0o770) }, "", ""},
		"open program": {func(_ *machine, p string) error { return os.Chmod(p, 0o720) }, "", ""},
		"folder of another user": {func(m *machine, p string) error {
			if os.Getuid() != 0 {
				return os.ErrPermission
			}
			return os.Chown(filepath.Dir(p), 4711, 0)
		}, ReasonAgent, "belongs to another user (4711): remove it"},
		"open home": {func(m *machine, _ string) error { return os.Chmod(m.home, 0o777) }, ReasonAgent, "chmod go-w"},
		"folder above of another user": {func(m *machine, _ string) error {
			if os.Getuid() != 0 {
				return os.ErrPermission
			}
			return os.Chown(filepath.Dir(m.home), 4711, 0)
		}, ReasonAgent, "user 4711 owns it"},
	} {
		t.Run(name, func(t *testing.T) {
			m, starts := becomingMachine(t, "nopasswd")
			path := m.place(t)
			if err := c.spoil(m, path); errors.Is(err, os.ErrPermission) {
				skip(t, "needs root, to make files of another user")
			} else if err != nil {
				t.Fatal(err)
			}
			config := m.config(m.addr)
			config.Become = &Become{Method: "sudo"}
			_, err := Do(t.Context(), m.dial(t, config), wire.Check, directories(t.TempDir(), 1), nil)
			if c.reason == "" && err != nil {
				t.Fatal(err)
			}
			if c.reason != "" {
				var ce *ConnectError
				if !errors.As(err, &ce) {
					t.Fatalf("%v is not a ConnectError", err)
				}
				wantError(t, ce, c.reason, c.says)
			}
			if have, want := len(starts()), 1; c.reason != "" && have != 0 || c.reason == "" && have != want {
				t.Errorf("sudo was started %d times", have)
			}
			if _, err := os.Stat(path + ".ran"); err == nil {
				t.Error("the other program was run")
			}
		})
	}
}

// TestBecomeStages: an artifact passes through the user's folder and leaves nothing there; leave removes the agent.
func TestBecomeStages(t *testing.T) {
	m, _ := becomingMachine(t, "nopasswd")
	c := m.config(m.addr)
	c.Become = &Become{Method: "sudo"}
	conn := m.dial(t, c)
	src := artifact(t, 3<<20)
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Fatal(err)
	}
	_, digest := src.Digest()
	if have, err := fileDigest(filepath.Join(agent.BlobDir("linux", m.dir), digest)); err != nil || have != digest {
		t.Errorf("%s, %v, want %s", have, err, digest)
	}
	folder := filepath.Join(m.home, ".nodejoin", "agent")
	if list, err := os.ReadDir(folder); err != nil || len(list) != 1 {
		t.Errorf("%v, %v, want the agent alone", list, err)
	}
	if _, err := conn.Forget(t.Context(), executor.LeaveRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(folder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s after a leave: %v", filepath.Dir(folder), err)
	}
}

// TestBecomeCut: a lost connection ends the agent that has root's rights.
func TestBecomeCut(t *testing.T) {
	m, _ := becomingMachine(t, "nopasswd")
	m.place(t)
	p := sshtest.NewProxy(t, m.addr, 0)
	c := m.config(p.Addr)
	c.Become = &Become{Method: "sudo"}
	dir := t.TempDir()
	_, err := Do(t.Context(), m.dial(t, c), wire.Apply, slowStep(dir), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			p.Cut()
		}
	})
	if !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	until(t, "the step is given up", func() bool {
		_, err := os.Stat(filepath.Join(dir, "slow.given-up"))
		return err == nil
	})
}

// TestPasswordIsGivenOnce: a machine that keeps asking gets sudo's password once for each of the two starts of the
// agent. Without a password in the plan it gets nothing. What it prints about the password is not shown.
func TestPasswordIsGivenOnce(t *testing.T) {
	const password = "pass-word-4711"
	t.Setenv("TEST_BECOME", password)
	for i, b := range []*Become{nil, {Method: "sudo"}, {Method: "sudo", PasswordEnv: "TEST_BECOME"},
		{Method: "sudo", PasswordEnv: "TEST_BECOME"}} {
		var given, starts, leaked atomic.Int64
		var served sync.WaitGroup
		m := newMachine(t, func(m *machine) {
			m.Handler = func(s gssh.Session) {
				served.Add(1)
				defer served.Done()
				given := &given
				if strings.HasPrefix(s.RawCommand(), "sh -c 'command -v") { // a shell that waits for the agent
					given = &leaked
				} else {
					starts.Add(1)
				}
				for range 4 - i {
					_, _ = io.WriteString(s, `{"jsonrpc":"2.0","method":"password_wanted"}`+"\n")
				}
				lines := bufio.NewScanner(s)
				if b != nil && b.PasswordEnv != "" && lines.Scan() {
					given.Add(int64(strings.Count(lines.Text(), password)))
				}
				_, _ = io.WriteString(s,
					`{"jsonrpc":"2.0","method":"refused","params":{"why":"denied","said":"it is `+password+`"}}`+"\n")
				_ = s.CloseWrite()
				for lines.Scan() {
					given.Add(int64(strings.Count(lines.Text(), password)))
				}
			}
		})
		c := m.config(m.addr)
		c.Become = b
		conn, err := DialSSH(t.Context(), c, selfAgent)
		if err == nil {
			_, err = Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil)
			_ = conn.Close()
		}
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), password) {
			t.Errorf("%+v: %v", b, err)
		}
		served.Wait()
		if want := map[bool]int64{true: starts.Load()}[b != nil && b.PasswordEnv != ""]; given.Load() != want ||
			starts.Load() > 2 || leaked.Load() > 0 {
			t.Errorf("%+v: the password was given %d times in %d starts, and %d times to a shell that waits", b,
				given.Load(), starts.Load(), leaked.Load())
		}
	}
}
