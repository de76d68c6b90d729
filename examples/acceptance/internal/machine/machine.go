// Package machine creates Linux machines for tests, each with its own process 1, files, network, host name and
// control groups. They use the programs that are installed on this machine.
package machine

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed boot.sh
var boot string

// Options of a machine.
type Options struct {
	Dir     string // its own folder, on a file system that supports overlays
	Name    string // host name, and the name of its control groups; short
	Systemd bool   // as process 1; else a shell that does nothing
	// Network is the /24 network between the machine, which gets .2, and this one,
	// which gets .1: "10.89.7". "" = loopback alone.
	Network string
	// Beside is a machine that is up and whose network this one shares, as .3; nil = it has its own.
	Beside *Machine
}

// Machine is a machine, up or down.
type Machine struct {
	opt     Options
	cmd     *exec.Cmd     // nil = the machine is down
	gone    chan struct{} // closed when cmd has ended
	console *os.File
	pid     int    // of its process 1, as it is seen from here
	kernel  *lease // of the parameters that the machine shares with this one
}

// Start creates a machine, boots it and connects it.
func Start(ctx context.Context, opt Options) (m *Machine, err error) {
	if opt.Beside != nil {
		opt.Network = opt.Beside.opt.Network
	}
	m = &Machine{opt: opt}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%w\n%s", err, m.Console()), m.Stop())
		}
	}()
	for _, name := range []string{"upper", "work", "root", "lib"} {
		if err := os.MkdirAll(filepath.Join(opt.Dir, name), 0o755); err != nil {
			return m, err
		}
	}
	if err := os.WriteFile(m.script(), []byte(boot), 0o600); err != nil {
		return m, err
	}
	if m.kernel, err = holdParameters("/proc/sys", "/run/nodejoin-machine-parameters.json"); err != nil {
		return m, err
	}
	if m.console, err = os.Create(filepath.Join(opt.Dir, "console")); err != nil {
		return m, err
	}
	if err := m.makeNetwork(ctx); err != nil {
		return m, err
	}
	if err := m.Boot(ctx); err != nil {
		return m, err
	}
	return m, m.Connect(ctx)
}

func (m *Machine) script() string { return filepath.Join(m.opt.Dir, "boot.sh") }

// Boot starts a machine that is down, without its network. Its files are unchanged, except those of folders in
// memory (/run, /tmp, /var/tmp, /dev).
func (m *Machine) Boot(ctx context.Context) (err error) {
	if err := m.makeGroups(); err != nil {
		return err
	}
	init := ""
	if m.opt.Systemd {
		init = "systemd"
	}
	cmd := m.within("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--uts", "--ipc", "--cgroup", "sh",
		m.script(), m.opt.Dir, m.opt.Name, init)
	cmd.Stdout, cmd.Stderr = m.console, m.console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // it ends by a signal
	}()
	m.cmd, m.gone, m.pid = cmd, gone, 0
	if err := await(ctx, "its process 1", m.findInit); err != nil {
		return err
	}
	return await(ctx, "its start", func() bool { return m.up(ctx) })
}

// AwaitDown waits until the machine has gone down by itself, for a reboot. Boot is the second half of it.
func (m *Machine) AwaitDown(ctx context.Context) error {
	if err := await(ctx, "its end", func() bool {
		m.letGo()
		select {
		case <-m.gone:
			return true
		default:
			return false
		}
	}); err != nil {
		return err
	}
	m.pid = 0 // which may belong to another process from now on
	return m.PowerOff(ctx)
}

// letGo continues what Command has started. systemd stops every program of the machine for
// a moment before it ends them. nsenter(1) then stops itself along with its own, and systemd
// does not see it: unless it is continued, the program is not reaped, and the machine stays.
func (m *Machine) letGo() {
	for _, g := range m.groups() {
		raw, _ := os.ReadFile(filepath.Join(g, "cgroup.procs")) // gone with the machine
		for _, f := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}
	}
}

// PowerOff kills everything that runs on the machine at once, like a power failure.
func (m *Machine) PowerOff(ctx context.Context) error {
	if m.cmd != nil {
		if m.pid != 0 {
			_ = syscall.Kill(m.pid, syscall.SIGKILL) // this ends everything in its namespace
		}
		_ = m.cmd.Process.Kill()
		<-m.gone
		m.cmd = nil
	}
	return await(ctx, "its control groups to be empty", func() bool {
		left := false
		for _, g := range m.groups() {
			left = !removeGroup(g) || left
		}
		return !left
	})
}

// within is a command that runs in the machine's control groups.
func (m *Machine) within(argv ...string) *exec.Cmd {
	const join = `for d in /sys/fs/cgroup/*/"$0" /sys/fs/cgroup/"$0"; do
	if [ -d "$d" ]; then echo $$ > "$d/cgroup.procs"; fi
done
exec "$@"`
	return exec.Command("sh", append([]string{"-c", join, m.group()}, argv...)...)
}

// group is the name of the machine's control groups. Machines of other network namespaces
// may have the same name, and none of theirs.
func (m *Machine) group() string {
	here, _ := os.Readlink("/proc/self/ns/net") // net:[4026531840]
	return "nodejoin-" + m.opt.Name + "-" + strings.Trim(here, "net:[]")
}

// groups are the machine's control groups, one in each hierarchy.
func (m *Machine) groups() []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{"/sys/fs/cgroup/" + m.group()}
	}
	hierarchies, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs") // the pattern is well-formed
	var out []string
	for _, h := range hierarchies {
		out = append(out, filepath.Join(filepath.Dir(h), m.group()))
	}
	return out
}

func (m *Machine) makeGroups() error {
	for _, g := range m.groups() {
		if err := os.Mkdir(g, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty at first, and then no process may enter
			value, err := os.ReadFile(filepath.Join(filepath.Dir(g), file))
			if err != nil {
				continue // another hierarchy
			}
			if err := os.WriteFile(filepath.Join(g, file), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// findInit finds the child of unshare, which is the machine's process 1.
func (m *Machine) findInit() bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", m.cmd.Process.Pid))
	if err != nil {
		return false
	}
	f := strings.Fields(string(raw))
	if len(f) != 1 {
		return false
	}
	m.pid, err = strconv.Atoi(f[0])
	return err == nil
}

func (m *Machine) up(ctx context.Context) bool {
	if m.opt.Systemd {
		return exists(m.Path("/run/systemd/private")) &&
			m.Command(ctx, "systemctl", "is-active", "--quiet", "multi-user.target").Run() == nil
	}
	return exists(m.Path("/run/machine-up"))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// IP is the machine's address.
func (m *Machine) IP() string {
	if m.opt.Beside != nil {
		return m.opt.Network + ".3"
	}
	return m.opt.Network + ".2"
}

// Gateway is the address of this machine on the same network.
func (m *Machine) Gateway() string { return m.opt.Network + ".1" }

func (m *Machine) link() string { return "nj" + m.opt.Name }

// bridge is the link between the machines of a network and this one.
func (m *Machine) bridge() string {
	if m.opt.Beside != nil {
		return m.opt.Beside.link()
	}
	return m.link()
}

// makeNetwork creates this side of the network, which also exists while the machine is down.
func (m *Machine) makeNetwork(ctx context.Context) error {
	if m.opt.Network == "" || m.opt.Beside != nil {
		return nil
	}
	return runAll(ctx, [][]string{
		strings.Fields("ip link add " + m.link() + " type bridge"),
		strings.Fields("ip addr add " + m.Gateway() + "/24 dev " + m.link()),
		strings.Fields("ip link set " + m.link() + " up"),
	})
}

// Connect sets up the network of a machine that has booted.
func (m *Machine) Connect(ctx context.Context) error {
	commands := [][]string{}
	inside := func(args string) {
		commands = append(commands, m.enter(append([]string{"ip"}, strings.Fields(args)...)))
	}
	inside("link set lo up")
	if m.opt.Network != "" {
		port := m.link() + "p"
		commands = append(commands,
			strings.Fields("ip link add "+port+" master "+m.bridge()+" type veth peer name eth0 netns "+
				strconv.Itoa(m.pid)),
			strings.Fields("ip link set "+port+" up"))
		inside("addr add " + m.IP() + "/24 dev eth0")
		inside("link set eth0 up")
		inside("route add default via " + m.Gateway())
	}
	return runAll(ctx, commands)
}

// Join connects the machine, until it goes down, to the network of another one, too; host is the last part of its
// address there.
func (m *Machine) Join(ctx context.Context, other *Machine, host int) error {
	port, address := m.link()+"q", fmt.Sprintf("%s.%d", other.opt.Network, host)
	return runAll(ctx, [][]string{
		strings.Fields("ip link add " + port + " master " + other.link() + " type veth peer name eth1 netns " +
			strconv.Itoa(m.pid)),
		strings.Fields("ip link set " + port + " up"),
		m.enter(strings.Fields("ip addr add " + address + "/24 dev eth1")),
		m.enter(strings.Fields("ip link set eth1 up")),
	})
}

// Detach takes this machine out of the machine's network until back is called.
func (m *Machine) Detach(ctx context.Context) (back func() error, err error) {
	address := m.Gateway() + "/24 dev " + m.link()
	return func() error {
		return runAll(context.WithoutCancel(ctx), [][]string{strings.Fields("ip addr add " + address)})
	}, runAll(ctx, [][]string{strings.Fields("ip addr del " + address)})
}

func runAll(ctx context.Context, commands [][]string) error {
	for _, argv := range commands {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
		}
	}
	return nil
}

func (m *Machine) enter(argv []string) []string {
	return append([]string{"nsenter", "--target", strconv.Itoa(m.pid), "--mount", "--uts", "--ipc", "--net", "--pid",
		"--cgroup", "--root", "--wd=/", "--"}, argv...)
}

// Command is a command that runs on the machine.
func (m *Machine) Command(ctx context.Context, argv ...string) *exec.Cmd {
	inner := m.within(m.enter(argv)...)
	cmd := exec.CommandContext(ctx, inner.Args[0], inner.Args[1:]...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Run runs a command on the machine until it exits and returns its output.
func (m *Machine) Run(ctx context.Context, argv ...string) (string, error) {
	var out bytes.Buffer
	cmd := m.Command(ctx, argv...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out.String())
	}
	return out.String(), nil
}

// Path returns the path of a machine's file on this machine.
func (m *Machine) Path(path string) string {
	return filepath.Join("/proc", strconv.Itoa(m.pid), "root", path)
}

// Console returns what its process 1 printed.
func (m *Machine) Console() string {
	text, _ := os.ReadFile(filepath.Join(m.opt.Dir, "console"))
	return string(text)
}

// Stop kills everything that runs on the machine and removes its network and control groups. Its files stay in
// its folder.
func (m *Machine) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	errs := []error{m.PowerOff(ctx)}
	if m.console != nil {
		errs = append(errs, m.console.Close())
		m.console = nil
	}
	// Asked of the kernel, since /sys may show another network namespace than this one.
	if _, err := net.InterfaceByName(m.link()); m.opt.Network != "" && err == nil {
		errs = append(errs, runAll(ctx, [][]string{{"ip", "link", "del", m.link()}}))
	}
	if m.kernel != nil {
		errs = append(errs, m.kernel.release())
		m.kernel = nil
	}
	return errors.Join(errs...)
}

// removeGroup removes a control group and the groups below it, and reports whether it is gone.
func removeGroup(dir string) bool {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	for _, e := range entries {
		if e.IsDir() {
			removeGroup(filepath.Join(dir, e.Name()))
		}
	}
	err = syscall.Rmdir(dir)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

func await(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("machine: waited for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// CopyTo copies the disk of a machine that is down to the folder of another one, which Start then starts.
func (m *Machine) CopyTo(ctx context.Context, dir string) error {
	return runAll(ctx, [][]string{{"cp", "-a", "--reflink=auto", m.Upper(), m.Lib(), filepath.Join(m.opt.Dir, "booted"),
		dir}})
}

// Lib is the folder that holds /var/lib, of which nothing is this machine's.
func (m *Machine) Lib() string { return filepath.Join(m.opt.Dir, "lib") }

// Upper is the folder that holds what differs from this machine's files on the root
// file system.
func (m *Machine) Upper() string { return filepath.Join(m.opt.Dir, "upper") }
