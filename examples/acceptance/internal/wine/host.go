// Package wine gives tests a Windows machine: a Wine prefix with the stand-in DLLs
// and the registry of a Windows Server 2022, reached over SSH and SFTP.
package wine

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"golang.org/x/crypto/ssh"
	"nodejoin/examples/acceptance/internal/components"
)

// Users of the SSH server: the administrator's name depends on the language of Windows.
const (
	user       = "Administrator"
	koreanUser = "관리자"
)

// startWait bounds the start of the SSH server: the first process of a prefix boots it.
const startWait = 60 * time.Second

// Options of a machine.
type Options struct {
	Components *components.Set
	Dir        string // empty or new folder of the test's own
	IP         string // of the SSH server; "" = 127.0.0.1
	HNSPort    int    // of the stand-in HNS; 0 = none
	Password   string // of the user; "" = no login by password
	NoSSH      bool   // the SSH server is a capability that nobody has installed, as before Windows Server 2025
	Korean     bool   // locale, code page 949, names of the user and of services; Windows Server is English otherwise
}

// Host is a running machine. Its methods must not be called concurrently.
type Host struct {
	Prefix   string
	Addr     string        // of the SSH server, "127.0.0.1:40000"
	User     string        // the one that may log in
	HostKey  ssh.PublicKey // of the SSH server
	Identity string        // file of a private key that may log in

	dir     string
	opts    Options
	session chan struct{} // closed when the program that keeps Wine's services running has ended; nil = none runs
	kill    func()        // ends that program
}

// Start copies the template, installs the keys and starts the SSH server. The caller must call Stop, even if a
// later call fails.
func Start(ctx context.Context, o Options) (*Host, error) {
	h := &Host{Prefix: filepath.Join(o.Dir, "prefix"), Identity: filepath.Join(o.Dir, "id_ed25519"), User: user,
		dir:  o.Dir,
		opts: o}
	if o.Korean {
		h.User = koreanUser
	}
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
	if err := h.findHNS(); err != nil {
		return nil, err
	}
	err = h.speakKorean(ctx)
	if err == nil {
		err = h.serve(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.Stop())
	}
	return h, nil
}

// Copy copies the disk of this machine, which must be down, and boots it as another machine, with keys of its own. The
// SSH server of both has the same port, and without another IP the same address: only one may be up.
func (h *Host) Copy(ctx context.Context, o Options) (*Host, error) {
	c := &Host{Prefix: filepath.Join(o.Dir, "prefix"), Identity: filepath.Join(o.Dir, "id_ed25519"), User: h.User,
		Addr: h.Addr, dir: o.Dir, opts: o}
	if c.opts.IP == "" {
		c.opts.IP = h.ip()
	}
	out, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", h.Prefix, c.Prefix).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("copy the prefix: %w: %s", err, out)
	}
	if err := errors.Join(c.keys(), c.findHNS(), c.ListenAt(c.opts.IP)); err != nil {
		return nil, err
	}
	if err := c.Boot(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// findHNS has the machine find its HNS.
func (h *Host) findHNS() error {
	if h.opts.HNSPort == 0 {
		return nil
	}
	return os.WriteFile(h.Path(`C:\windows\hns-stand-in.port`), []byte(strconv.Itoa(h.opts.HNSPort)), 0o644)
}

// speakKorean gives things of a Korean machine their names. Wine takes locale and code page from each process's
// environment.
func (h *Host) speakKorean(ctx context.Context) error {
	if !h.opts.Korean {
		return nil
	}
	text, err := os.ReadFile(h.opts.Components.Source("wine", "korean.reg"))
	if err != nil {
		return err
	}
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(string(text))) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}
	if err := os.WriteFile(h.Path(`C:\windows\korean.reg`), wide, 0o644); err != nil {
		return err
	}
	_, err = h.Run(ctx, "regedit", "/S", `C:\windows\korean.reg`)
	return err
}

// Path is where a path of the machine, `C:\k\x`, lies on this one. Names are case-sensitive here, unlike in
// Wine's own look-up.
func (h *Host) Path(windows string) string {
	rest := strings.TrimPrefix(windows, `C:\`)
	return filepath.Join(h.Prefix, "drive_c", filepath.FromSlash(strings.ReplaceAll(rest, `\`, "/")))
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

// routesFile has the routes that programs have added (wine/routes.c).
const routesFile = `C:\windows\routes-stand-in`

// SetRoutes adds routes as a program would: "169.254.169.254/32 192.0.2.1 15 uplink" is destination, next hop,
// metric and adapter.
func (h *Host) SetRoutes(lines ...string) error {
	return os.WriteFile(h.Path(routesFile), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// Routes are those that programs have added since the boot, and that were there when the last one was added.
func (h *Host) Routes() ([]string, error) {
	text, err := os.ReadFile(h.Path(routesFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}

// Command is a program of the machine, not yet started. Its output must go to a file: services that it starts
// would keep a pipe open.
func (h *Host) Command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := wineCommand(ctx, h.Prefix, argv...)
	if h.opts.Korean {
		cmd.Env = append(cmd.Env, "LC_ALL=ko_KR.UTF-8")
	}
	return cmd
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
	if err := os.Remove(h.Path(routesFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
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
	b, _ := os.ReadFile(h.Path(logFile))
	return string(b)
}

// Files of the SSH server.
const (
	portFile = `C:\windows\winsshd.port`
	logFile  = `C:\windows\winsshd.log`
)

func (h *Host) powerOff() error {
	err := killPrefix(h.Prefix)
	if h.session == nil {
		return err
	}
	select {
	case <-h.session:
	case <-time.After(10 * time.Second): // it had not yet reached Wine's server
		h.kill()
		<-h.session
		err = errors.Join(err, killPrefix(h.Prefix))
	}
	h.session = nil
	return err
}

// boot starts the machine with its automatic services, which Wine ends with the last program that is not a service.
func (h *Host) boot(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(h.dir, "session.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// The session outlives ctx, which bounds the start alone.
	session := h.Command(context.WithoutCancel(ctx), `C:\windows\winsshd.exe`, "-session")
	session.Stdout, session.Stderr = log, log
	if err := session.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	h.session, h.kill = done, func() { _ = session.Process.Kill() }
	go func() { _ = session.Wait(); close(done) }()
	return nil
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

// AdmitSSH adds a rule of the firewall for the SSH server's port in any network, as somebody does whose router
// forwards another port to it.
func (h *Host) AdmitSSH(ctx context.Context) error {
	rule := fmt.Sprintf("v2.31|Name=forwarded SSH|Protocol=6|LPort=%d|Dir=In|Active=TRUE|Profile=2147483647|"+
		"Action=Allow|", h.Port())
	_, err := h.Run(ctx, "reg.exe", "add", `HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters`+
		`\FirewallPolicy\FirewallRules`, "/v", "forwarded-ssh", "/d", rule, "/f")
	return err
}

// SetDefaultShell says which program runs the commands of SSH.
func (h *Host) SetDefaultShell(ctx context.Context, path string) error {
	_, err := h.Run(ctx, "reg.exe", "add", `HKLM\SOFTWARE\OpenSSH`, "/v", "DefaultShell", "/d", path, "/f")
	return err
}

// ErrNoSSH says that the SSH server of a machine does not start with it.
var ErrNoSSH = errors.New("the service sshd does not start with the machine")

// serve boots the machine: its service manager starts what starts with it, with luck the SSH server.
func (h *Host) serve(ctx context.Context) error {
	for _, name := range []string{h.Path(portFile), h.Path(askedFile)} { // of the boot before
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if h.opts.NoSSH {
		return h.offer(ctx)
	}
	if h.Addr == "" {
		if err := h.install(ctx); err != nil {
			return err
		}
	} else {
		started, err := h.startsWithMachine()
		if err != nil {
			return err
		}
		if err := h.boot(ctx); err != nil {
			return err
		}
		if !started {
			// Any other program runs once the machine has booted.
			if out, err := h.Run(ctx, "cmd.exe", "/c", "exit"); err != nil {
				return fmt.Errorf("boot: %w: %s", err, out)
			}
			return ErrNoSSH
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(h.Path(portFile))
		if err == nil && len(bytes.TrimSpace(b)) > 0 {
			h.Addr = net.JoinHostPort(h.ip(), string(bytes.TrimSpace(b)))
			return nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		select {
		case <-h.session:
			return fmt.Errorf("the machine does not boot\n%s", h.Log())
		case <-ctx.Done():
			return fmt.Errorf("the SSH server does not listen: %w\n%s", context.Cause(ctx), h.Log())
		case <-tick.C:
		}
	}
}

// install registers the SSH server as the service sshd, which starts with the machine, and starts it. It keeps its
// port over boots.
func (h *Host) install(ctx context.Context) error {
	if err := replaceFile(h.opts.Components.Bin("winsshd.exe"), h.Path(`C:\windows\winsshd.exe`)); err != nil {
		return err
	}
	if err := h.boot(ctx); err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(h.ip(), "0"))
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	argv := []string{`C:\windows\winsshd.exe`, "-install", "-listen", addr, "-port-file", portFile, "-log", logFile,
		"-host-key", `C:\windows\ssh_host_key`, "-authorized-keys", `C:\windows\authorized_keys`, "-user", ascii(h.User)}
	if h.opts.Password != "" {
		argv = append(argv, "-password", h.opts.Password)
	}
	if out, err := h.Run(ctx, argv...); err != nil {
		return fmt.Errorf("install the SSH server: %w: %s", err, out)
	}
	return nil
}

// offer boots the machine with the SSH server as a capability that can be installed (wine/capability.c).
func (h *Host) offer(ctx context.Context) error {
	const updates = `C:\windows\update-stand-in`
	if err := os.MkdirAll(h.Path(updates), 0o755); err != nil {
		return err
	}
	err := os.WriteFile(h.Path(updates+`\sshd_config_default`), []byte("ListenAddress 127.0.0.1:22\n"), 0o644)
	for _, path := range []string{`C:\windows\winsshd.exe`, updates + `\sshd.exe`} {
		err = errors.Join(err, replaceFile(h.opts.Components.Bin("winsshd.exe"), h.Path(path)))
	}
	if err != nil {
		return err
	}
	if err := h.boot(ctx); err != nil {
		return err
	}
	if out, err := h.Run(ctx, "cmd.exe", "/c", "exit"); err != nil {
		return fmt.Errorf("boot: %w: %s", err, out)
	}
	return nil
}

// ascii escapes a text as Go does: Wine converts arguments by the locale.
func ascii(text string) string { return strings.Trim(strconv.QuoteToASCII(text), `"`) }

// sshdStart is the start type of the service in the registry of a machine that is off: 2 = automatic.
var sshdStart = regexp.MustCompile(`(?m)^\[System\\\\\w+\\\\Services\\\\sshd\].*\n(?:.+\n)*?"Start"=dword:0*2$`)

func (h *Host) startsWithMachine() (bool, error) {
	b, err := os.ReadFile(filepath.Join(h.Prefix, "system.reg"))
	return sshdStart.Match(b), err
}
