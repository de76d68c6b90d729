// Package wine gives tests a Windows machine: a Wine prefix with the stand-in DLLs
// and the registry of a Windows Server 2022, reached over SSH and SFTP.
package wine

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"nodejoin/examples/acceptance/internal/components"
)

// User is the one user of the machine's SSH server.
const User = "Administrator"

// startWait bounds the start of the SSH server: the first process of a prefix boots it.
const startWait = 60 * time.Second

// Options of a machine.
type Options struct {
	Components *components.Set
	Dir        string // empty or new folder of the test's own
	HNSPort    int    // of the stand-in HNS; 0 = none
	Password   string // of User; "" = no login by password
}

// Host is a running machine. Its methods must not be called concurrently.
type Host struct {
	Prefix   string
	Addr     string        // of the SSH server, "127.0.0.1:40000"
	HostKey  ssh.PublicKey // of the SSH server
	Identity string        // file of a private key that may log in

	dir    string
	opts   Options
	server *exec.Cmd
	done   chan struct{} // closed when server has ended
}

// Start copies the template, installs the keys and starts the SSH server. The caller must call Stop, even if a
// later call fails.
func Start(ctx context.Context, o Options) (*Host, error) {
	h := &Host{Prefix: filepath.Join(o.Dir, "prefix"), Identity: filepath.Join(o.Dir, "id_ed25519"), dir: o.Dir, opts: o}
	tmpl, err := ensureTemplate(ctx, o.Components)
	if err != nil {
		return nil, fmt.Errorf("wine template: %w", err)
	}
	if err := copyPrefix(ctx, tmpl, h.Prefix); err != nil {
		return nil, err
	}
	if err := h.keys(); err != nil {
		return nil, err
	}
	if o.HNSPort != 0 {
		if err := os.WriteFile(h.Path(`C:\windows\hns-stand-in.port`), []byte(strconv.Itoa(o.HNSPort)), 0o644); err != nil {
			return nil, err
		}
	}
	if err := h.serve(ctx); err != nil {
		h.Stop()
		return nil, err
	}
	return h, nil
}

// Path is where a path of the machine, `C:\k\x`, lies on this one. Names are case-sensitive here, unlike in
// Wine's own look-up.
func (h *Host) Path(windows string) string {
	rest := strings.TrimPrefix(windows, `C:\`)
	return filepath.Join(h.Prefix, "drive_c", filepath.FromSlash(strings.ReplaceAll(rest, `\`, "/")))
}

// Port of the SSH server.
func (h *Host) Port() int {
	_, port, _ := strings.Cut(h.Addr, ":")
	n, _ := strconv.Atoi(port)
	return n
}

// KnownHosts returns the line of a known_hosts file for the SSH server at port.
func (h *Host) KnownHosts(port int) string {
	return fmt.Sprintf("[127.0.0.1]:%d %s", port, ssh.MarshalAuthorizedKey(h.HostKey))
}

// SetSwitch has programs see that adapter has a virtual switch, or that none has ("").
// Connections of the SSH server break with each change.
func (h *Host) SetSwitch(adapter string) error {
	path := h.Path(`C:\windows\switch-stand-in`)
	if adapter == "" {
		err := os.Remove(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return os.WriteFile(path, []byte(adapter), 0o644)
}

// Command is a program of the machine, not yet started. Its output must go to a file: services that it starts
// would keep a pipe open.
func (h *Host) Command(ctx context.Context, argv ...string) *exec.Cmd {
	return wineCommand(ctx, h.Prefix, argv...)
}

// Run runs a program of the machine until it exits and returns its output.
func (h *Host) Run(ctx context.Context, argv ...string) (string, error) {
	return runWine(ctx, h.dir, h.Command(ctx, argv...))
}

// RunWith is Run with more environment, "NAME=value", and input.
func (h *Host) RunWith(ctx context.Context, env []string, input string, argv ...string) (string, error) {
	cmd := h.Command(ctx, argv...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin = strings.NewReader(input)
	return runWine(ctx, h.dir, cmd)
}

// Reboot kills every process of the machine, like a power failure, and starts the machine with its automatic
// services. The SSH server keeps its port.
func (h *Host) Reboot(ctx context.Context) error {
	if err := h.powerOff(); err != nil {
		return err
	}
	return h.Boot(ctx)
}

// Boot starts a machine that Stop has ended, as Reboot does.
func (h *Host) Boot(ctx context.Context) error {
	if err := h.endServicing(); err != nil {
		return err
	}
	return h.serve(ctx)
}

// servicingWaits matches the key, with its contents, that servicing creates while it waits for a reboot. On
// Windows it is volatile; reg.exe, with which a test creates it, cannot create volatile keys.
var servicingWaits = regexp.MustCompile(
	`(?m)^\[Software\\\\Microsoft\\\\Windows\\\\CurrentVersion\\\\` +
		`Component Based Servicing\\\\RebootPending\].*\n(?:.+\n)*`)

// endServicing removes the key while the machine is off.
func (h *Host) endServicing() error {
	path := filepath.Join(h.Prefix, "system.reg")
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !servicingWaits.Match(b) {
		return nil
	}
	return os.WriteFile(path, servicingWaits.ReplaceAll(b, nil), 0o644)
}

// Stop ends every process of the machine.
func (h *Host) Stop() error { return h.powerOff() }

// askedFile has the last request for a reboot (wine/shutdown.c).
const askedFile = `C:\windows\shutdown-stand-in.asked`

// Asked waits until a program of the machine has asked Windows for a shutdown or reboot, which only the caller
// can perform, and returns the request: seconds to wait, force and reboot (1 = yes), reason.
func (h *Host) Asked(ctx context.Context) (string, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(h.Path(askedFile))
		if err == nil && bytes.HasSuffix(b, []byte("\n")) {
			return string(bytes.TrimSpace(b)), nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("nobody has asked for a reboot: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Log returns the output of the SSH server, for the report of a failed test.
func (h *Host) Log() string {
	b, _ := os.ReadFile(filepath.Join(h.dir, "winsshd.log"))
	return string(b)
}

func (h *Host) powerOff() error {
	err := killPrefix(h.Prefix)
	if h.done != nil {
		select {
		case <-h.done:
		case <-time.After(10 * time.Second):
			h.server.Process.Kill()
			<-h.done
		}
		h.done = nil
	}
	return err
}

func (h *Host) keys() error {
	_, hostKey, err := newKey(h.Path(`C:\windows\ssh_host_key`))
	if err != nil {
		return err
	}
	login, _, err := newKey(h.Identity)
	if err != nil {
		return err
	}
	h.HostKey = hostKey
	return os.WriteFile(h.Path(`C:\windows\authorized_keys`), []byte(login), 0o644)
}

// newKey writes a private key and gives its public half, as a line and as a key.
func newKey(file string) (line string, public ssh.PublicKey, err error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return "", nil, err
	}
	if public, err = ssh.NewPublicKey(private.Public()); err != nil {
		return "", nil, err
	}
	return string(ssh.MarshalAuthorizedKey(public)), public, os.WriteFile(file, pem.EncodeToMemory(block), 0o600)
}

func (h *Host) serve(ctx context.Context) error {
	portFile := h.Path(`C:\windows\winsshd.port`)
	for _, name := range []string{portFile, h.Path(askedFile)} { // of the boot before
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := replaceFile(h.opts.Components.Bin("winsshd.exe"), h.Path(`C:\windows\winsshd.exe`)); err != nil {
		return err
	}
	argv := []string{`C:\windows\winsshd.exe`, "-port-file", `C:\windows\winsshd.port`, "-host-key",
		`C:\windows\ssh_host_key`,
		"-authorized-keys", `C:\windows\authorized_keys`, "-user", User}
	if h.Addr != "" {
		argv = append(argv, "-listen", h.Addr)
	}
	if h.opts.Password != "" {
		argv = append(argv, "-password", h.opts.Password)
	}
	log, err := os.OpenFile(filepath.Join(h.dir, "winsshd.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// The server outlives ctx, which only bounds the start.
	h.server = wineCommand(context.WithoutCancel(ctx), h.Prefix, argv...)
	h.server.Stdout, h.server.Stderr = log, log
	if err := h.server.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	h.done = done
	go func() { h.server.Wait(); close(done) }()

	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(portFile)
		if err == nil && len(bytes.TrimSpace(b)) > 0 {
			h.Addr = "127.0.0.1:" + string(bytes.TrimSpace(b))
			return nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		select {
		case <-done:
			return fmt.Errorf("the SSH server ended: %s", h.Log())
		case <-ctx.Done():
			return fmt.Errorf("the SSH server does not listen: %w\n%s", context.Cause(ctx), h.Log())
		case <-tick.C:
		}
	}
}
