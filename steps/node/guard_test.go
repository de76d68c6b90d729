package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/hostlock"
	"nodejoin/steps/kinds"
)

const (
	planFile = `C:\ProgramData\nodejoin\node.json`
	config   = `C:\k\b.conf`
	network  = "flannel.4096"
)

// machine is a sandbox with two services: b, which a file configures, depends on a.
type machine struct {
	*sandbox.Host
	t       *testing.T
	lockDir string
	guard   *steps.Guard
	tokens  []steps.Spec
	network bool // it has an HNS network, which b uses

	mu      sync.Mutex
	lines   []string
	reports []string
}

func newMachine(t *testing.T) *machine { return newGuarded(t, nil) }

// newGuarded is a machine whose boot part configures the guard; a nil guard has no configuration.
func newGuarded(t *testing.T, guard *steps.Guard) *machine {
	t.Helper()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{Host: h, t: t, lockDir: t.TempDir(), guard: guard, network: guard != nil}
	m.write(`C:\k\a.exe`, "a")
	m.write(`C:\k\b.exe`, "b")
	m.apply(append(m.specs(), m.bootFile())...)
	return m
}

// bootFile is the step with the boot part of the machine's steps.
func (m *machine) bootFile() steps.Spec {
	var boot []steps.Spec
	for _, s := range m.specs() {
		if s.ID == "a" {
			s.Kind, s.Args = "service_running", steps.MustArgs(&kinds.ServiceRunning{Name: "a"})
		}
		boot = append(boot, s)
	}
	return spec("boot", "file", &kinds.File{Path: planFile, Content: steps.BootPlan{Node: "win-1", Steps: boot,
		Guard: m.guard, Tokens: m.tokens}.Text(),
		Access: host.AccessPrivate})
}

func spec(id, kind string, args any) steps.Spec {
	return steps.Spec{ID: id, Kind: kind, Args: steps.MustArgs(args), Timeout: 20 * time.Second}
}

func (m *machine) specs() []steps.Spec {
	service := func(name string, dependsOn ...string) *kinds.Service {
		return &kinds.Service{ServiceConfig: host.ServiceConfig{Name: name, Command: []string{`C:\k\` + name + `.exe`},
			DependsOn: dependsOn}}
	}
	b := service("b", "a")
	b.Watch = []string{config}
	list := []steps.Spec{spec("a", "service", service("a"))}
	if m.network {
		list = append(list, spec("net", "hns_network", &kinds.HNSNetwork{Name: network, Type: "Overlay",
			Subnet: "10.244.3.0/24", VNI: 4096, Service: "b"}))
	}
	return append(list,
		spec("vip", "source_vip", &kinds.SourceVIP{Dir: `C:\var\lib\cni\networks`, Network: "n", Subnet: "10.244.3.0/24"}),
		spec("conf", "file", &kinds.File{Path: config, Content: "node " + steps.Ref("fact.hostname") + "\nvip " +
			steps.Ref("vip.address") + "\n"}),
		spec("b", "service", b))
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	if err := m.WriteFile(m.t.Context(), path, strings.NewReader(text), host.WriteOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) apply(list ...steps.Spec) {
	m.t.Helper()
	reply, err := executor.NewExecutor(kinds.Catalog(), m.Host, none{}, func(event.Event) {}).Apply(m.t.Context(),
		executor.Request{Node: "win-1", Steps: list})
	if err == nil && reply.Err != nil {
		err = reply.Err
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) options(h host.Host) Options {
	return Options{Host: h, Path: planFile, LockDir: m.lockDir, Pause: time.Millisecond,
		Log: func(line string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.lines = append(m.lines, line)
		},
		Report: func(l Level, text string) {
			if l == Error {
				text = "error: " + text
			}
			m.reports = append(m.reports, text)
		}}
}

// said waits until a line of the log holds text.
func (m *machine) said(ctx context.Context, text string) {
	m.t.Helper()
	for ctx.Err() == nil {
		m.mu.Lock()
		log := strings.Join(m.lines, "\n")
		m.mu.Unlock()
		if strings.Contains(log, text) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	m.t.Fatalf("the log does not hold %q:\n%s", text, strings.Join(m.lines, "\n"))
}

func (m *machine) wantRunning(names ...string) {
	m.t.Helper()
	for _, name := range names {
		if s, err := m.Service(m.t.Context(), name); err != nil || s.State != host.ServiceRunning {
			m.t.Errorf("service %s: %q, %v\n%s", name, s.State, err, strings.Join(m.lines, "\n"))
		}
	}
}

// pid is the process of a service.
func (m *machine) pid(service string) int {
	m.t.Helper()
	s, err := m.Service(m.t.Context(), service)
	if err != nil {
		m.t.Fatal(err)
	}
	return s.PID
}

func (m *machine) stop(names ...string) {
	m.t.Helper()
	for _, name := range names {
		if err := m.StopService(m.t.Context(), name); err != nil {
			m.t.Fatal(err)
		}
	}
}

// TestInOrder: the guard changes nothing, and does not take the lock: another run may hold it.
func TestInOrder(t *testing.T) {
	m := newMachine(t)
	other := hostlock.New(m.lockDir)
	if _, err := other.Take(t.Context(),
		steps.LockRequest{Holder: steps.LockHolder{Run: "1", Command: "apply"}}); err != nil {
		t.Fatal(err)
	}
	calls := 0
	h := host.Intercept(m.Host, func(string, string) error { calls++; return nil })
	if err := Run(t.Context(), m.options(h)); err != nil || calls > 0 {
		t.Errorf("%d mutating calls, %v", calls, err)
	}
	if len(m.reports) != 1 || !strings.Contains(m.reports[0], "Node win-1 is in order.") {
		t.Errorf("reported: %q", m.reports)
	}
}

// TestHeals: the guard fixes what a boot broke, even if a value is known only then. The log
// and the report say what it did.
func TestHeals(t *testing.T) {
	m := newMachine(t)
	m.stop("b", "a")
	if err := m.Remove(t.Context(), `C:\var\lib\cni\networks\n\10.244.3.2`); err != nil {
		t.Fatal(err)
	}
	m.write(`C:\var\lib\cni\networks\n\10.244.3.2`, "a pod\r\neth0")
	if err := Run(t.Context(), m.options(m.Host)); err != nil {
		t.Fatal(err)
	}
	m.wantRunning("a", "b")
	rc, err := m.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	text := make([]byte, 100)
	n, _ := rc.Read(text)
	f, err := m.Facts(t.Context())
	if want := "node " + f.Hostname + "\nvip 10.244.3.3\n"; err != nil || string(text[:n]) != want {
		t.Errorf("%s holds %q, want %q; %v", config, text[:n], want, err)
	}
	if want := []string{"Node win-1 is in order again. Done: a, vip, conf, b."}; len(m.reports) != 1 ||
		m.reports[0] != want[0] {
		t.Errorf("reported %q, want %q", m.reports, want)
	}
	m.said(t.Context(), "everything is in order now; done: a, vip, conf, b")
	if err := Run(t.Context(), m.options(m.Host)); err != nil {
		t.Fatal(err)
	}
	if last := m.reports[len(m.reports)-1]; last != "Node win-1 is in order." {
		t.Errorf("the second time: %q", last)
	}
}

// TestTriesAgain: the guard reports a failure once, and retries until it succeeds.
func TestTriesAgain(t *testing.T) {
	m := newMachine(t)
	m.stop("b", "a")
	failures := 0
	h := host.Intercept(m.Host, func(op, subject string) error {
		if op == "start service" && subject == "b" && failures < 3 {
			failures++
			return errors.New("no")
		}
		return nil
	})
	if err := Run(t.Context(), m.options(h)); err != nil {
		t.Fatal(err)
	}
	m.wantRunning("a", "b")
	if failures != 3 || len(m.reports) != 2 || !strings.HasPrefix(m.reports[0], "error: Node win-1 is not in order") ||
		!strings.Contains(m.reports[1], "in order again") {
		t.Errorf("%d failures, reported %q", failures, m.reports)
	}
}

// TestWaitsForAnotherRun: the guard changes nothing while another run holds the lock, and
// does not repeat what that run did.
func TestWaitsForAnotherRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := newMachine(t)
	m.stop("b", "a")
	other := hostlock.New(m.lockDir)
	if _, err := other.Take(ctx,
		steps.LockRequest{Holder: steps.LockHolder{Run: "1", Command: "apply", User: "alice"}}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, m.options(m.Host)) }()
	m.said(ctx, "waiting for another run: apply by alice")
	if s, err := m.Service(ctx, "a"); err != nil || s.State != host.ServiceStopped {
		t.Errorf("a is %q, %v", s.State, err)
	}
	m.apply(m.specs()...)
	if err := other.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	m.wantRunning("a", "b")
	if len(m.reports) != 1 || m.reports[0] != "Node win-1 is in order." {
		t.Errorf("reported %q", m.reports)
	}
}

// TestStopped: a stop ends the wait for another run, and the pause after a failure.
func TestStopped(t *testing.T) {
	for _, name := range []string{"lock", "pause"} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			m := newMachine(t)
			m.stop("b")
			opt, line := m.options(m.Host), "waiting for another run"
			if name == "pause" {
				opt.Host, line = host.Intercept(m.Host, func(string, string) error { return errors.New("no") }), "next try in"
				opt.Pause = time.Hour
			} else if _, err := hostlock.New(m.lockDir).Take(ctx,
				steps.LockRequest{Holder: steps.LockHolder{Run: "1"}}); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- Run(ctx, opt) }()
			m.said(t.Context(), line)
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// TestNoPlan: the guard refuses a file that is missing, damaged, of another version or with
// steps that no machine can do, and reports that.
func TestNoPlan(t *testing.T) {
	for name, text := range map[string]string{"missing": "", "damaged": "{", "newer": `{"version":3}`,
		"cluster": `{"version":2,"steps":[{"id":"x","kind":"node_ready","args":{}}]}`} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if text == "" {
				if err := m.Remove(t.Context(), planFile); err != nil {
					t.Fatal(err)
				}
			} else {
				m.write(planFile, text)
			}
			err := Run(t.Context(), m.options(m.Host))
			if err == nil || len(m.reports) != 1 || !strings.HasPrefix(m.reports[0], "error: ") {
				t.Errorf("%v, reported %q", err, m.reports)
			}
			if name == "missing" && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

// TestMain of the program: a wrong command line, and a run to its end.
func TestCommandLine(t *testing.T) {
	m := newMachine(t)
	m.stop("b")
	log := t.TempDir() + "/node.log"
	args := []string{"--name", "nodejoin-node", "--data", m.lockDir, "--steps", planFile, "--log", log}
	open := func(string) (host.Host, error) { return m.Host, nil }
	for _, wrong := range [][]string{{}, args[:6], append(args, "x"), {"--what"}} {
		if code := Main(wrong, open); code != exitUsage {
			t.Errorf("%q: exit code %d", wrong, code)
		}
	}
	if code := Main(args, open); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	m.wantRunning("b")
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "in order now; done: b\n") {
		t.Errorf("%s, %v", text, err)
	}
	if code := Main(args, func(string) (host.Host, error) { return nil, errors.New("no machine") }); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
}

// starting is a machine whose network cannot be queried yet.
type starting struct {
	host.Host
	failures int
}

func (s *starting) Facts(ctx context.Context) (host.Facts, error) {
	if s.failures > 0 {
		s.failures--
		return host.Facts{}, errors.New("getadaptersaddresses: File not found")
	}
	return s.Host.Facts(ctx)
}

// TestMachineThatStarts: the guard retries while a machine cannot report its facts yet, then restores the node.
func TestMachineThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.stop("b")
		h := &starting{Host: m.Host, failures: 5}
		if err := Run(t.Context(), m.options(h)); err != nil {
			t.Fatal(err)
		}
		m.wantRunning("a", "b")
		if h.failures > 0 || len(m.reports) == 0 || !strings.Contains(m.reports[0], "File not found") {
			t.Errorf("%d failures left, reported %q", h.failures, m.reports)
		}
	})
}
