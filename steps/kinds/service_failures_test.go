package kinds_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
	"nodejoin/steps/stepstest"
)

func TestForeignServiceIsRefused(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Put(t, h, `C:\x\kubelet.exe`, "x")
	stepstest.Must(t,
		h.CreateService(t.Context(), host.ServiceConfig{Name: "kubelet", Command: []string{`C:\x\kubelet.exe`},
			Start: host.StartAuto}))
	for _, s := range []steps.Spec{
		stepstest.Spec("service", "s", stepstest.Service("kubelet", `C:\k\kubelet.exe`)),
		stepstest.Spec("preflight", "r", &preflight.Preflight{Services: []string{"kubelet"}}),
	} {
		r := stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{s})
		if r.Err == nil || r.Err.Remedy == "" || !strings.Contains(r.Err.Detail, "kubelet") || r.Mutations != 0 {
			t.Errorf("%s: %+v, %d mutating calls", s.Kind, r.Err, r.Mutations)
		}
	}
}

func TestServiceThatEnds(t *testing.T) {
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(),
		Broken: map[string]string{"bad.exe": "exit 7"}})
	stepstest.Must(t, err)
	stepstest.Put(t, h, `C:\k\bad.exe`, "x")
	stepstest.Put(t, h, `C:\k\bad.log`, strings.Repeat("early\r\n", 5000)+"unknown flag: --nope\r\n")
	s := stepstest.Service("bad", `C:\k\bad.exe`)
	s.Log = `C:\k\bad.log`
	r := stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{stepstest.Spec("service", "bad", s)})
	if r.Err == nil || !strings.Contains(r.Err.Detail, "exit code 7") || !strings.HasSuffix(r.Err.Detail,
		"unknown flag: --nope") || strings.Count(r.Err.Detail, "\n") != 20 {
		t.Errorf("%+v", r.Err)
	}
}

// looping is a machine whose service manager restarts services that have exited. altered is true after somebody has
// changed a registration, until it is written again.
type looping struct {
	host.Host
	crashes, altered bool
	stops            int
}

func (l *looping) Service(ctx context.Context, name string) (host.Service, error) {
	svc, err := l.Host.Service(ctx, name)
	if err == nil && l.crashes && svc.State == host.ServiceRunning {
		svc.State, svc.PID, svc.Restarting, svc.ExitCode = host.ServiceStarting, 0, true, 3
	}
	if err == nil && l.altered {
		svc.Altered = "changed by hand"
	}
	return svc, err
}

func (l *looping) UpdateService(ctx context.Context, c host.ServiceConfig) error {
	l.altered = false
	return l.Host.UpdateService(ctx, c)
}

func (l *looping) StopService(ctx context.Context, name string) error {
	l.stops++
	return l.Host.StopService(ctx, name)
}

// TestServiceThatRestarts: a service that exits again and again is an error at once; the step does not wait for it to
// stay up. The next check finds it, and it can be stopped.
func TestServiceThatRestarts(t *testing.T) {
	h := &looping{Host: stepstest.OpenHost(t, "windows"), crashes: true}
	stepstest.Put(t, h, `C:\k\x.exe`, "x")
	list := []steps.Spec{stepstest.Spec("service", "x", stepstest.Service("x", `C:\k\x.exe`))}
	if r := stepstest.Apply(t, h, stepstest.Memory{}, list); r.Err == nil || !strings.Contains(r.Err.Detail,
		"exit code 3") {
		t.Errorf("%+v", r.Err)
	}
	gate := []steps.Spec{stepstest.Spec("file_ready", "g", &kinds.FileReady{Path: `C:\run\x`, Service: "x"})}
	if r := stepstest.Apply(t, h, stepstest.Memory{}, gate); r.Err == nil || r.Err.Code != steps.CodeFailed ||
		!strings.Contains(r.Err.Detail, "exit code 3") {
		t.Errorf("%+v", r.Err)
	}
	stopped := stepstest.Service("x", `C:\k\x.exe`)
	stopped.State = host.ServiceStopped
	stepstest.Applied(t, h, stepstest.Memory{}, []steps.Spec{stepstest.Spec("service", "x", stopped)})
	h.crashes = false
	stepstest.Applied(t, h, stepstest.Memory{}, list)
	stepstest.Settled(t, h, stepstest.Memory{}, list)
}

// TestServiceAlteredByHand: the registration is written again and the service started from it, also if a run ended in
// between.
func TestServiceAlteredByHand(t *testing.T) {
	h := &looping{Host: stepstest.OpenHost(t, "windows")}
	stepstest.Put(t, h, `C:\k\x.exe`, "x")
	list := []steps.Spec{stepstest.Spec("service", "x", stepstest.Service("x", `C:\k\x.exe`))}
	stepstest.Applied(t, h, stepstest.Memory{}, list)
	h.altered, h.stops = true, 0
	stepstest.Apply(t, host.Intercept(h, func(op, _ string) error {
		if op == "stop service" {
			return errKilled
		}
		return nil
	}), stepstest.Memory{}, list)
	if h.altered || h.stops != 0 {
		t.Fatalf("altered %v, %d stops", h.altered, h.stops)
	}
	stepstest.Applied(t, h, stepstest.Memory{}, list)
	if h.stops != 1 {
		t.Errorf("stopped %d times, want once", h.stops)
	}
	stepstest.Settled(t, h, stepstest.Memory{}, list)
}

func TestGateEndsWithItsService(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Put(t, h, `C:\k\x.exe`, "x")
	stepstest.Must(t, h.CreateService(t.Context(), host.ServiceConfig{Name: "x", Command: []string{`C:\k\x.exe`},
		Start: host.StartManual}))
	start := time.Now()
	for _, s := range []steps.Spec{
		stepstest.Spec("file_ready", "g", &kinds.FileReady{Path: `C:\run\x`, Service: "x"}),
		stepstest.Spec("http_ready", "g", &kinds.HTTPReady{URL: "http://127.0.0.1:10248/healthz", Service: "x"}),
		stepstest.Spec("pipe_ready", "g", &kinds.PipeReady{Address: `\\.\pipe\x`, Service: "x"}),
		stepstest.Spec("hns_network_ready", "g", &kinds.HNSNetworkReady{Name: "flannel.4096", Service: "x"}),
		stepstest.Spec("credentials_ready", "g", &kinds.CredentialsReady{Path: `C:\k\kubelet.conf`,
			Server: "https://192.0.2.1:6443", CA: stepstest.TestCA(t), Service: "x"}),
	} {
		r := stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{s})
		if r.Err == nil || r.Err.Code != steps.CodeFailed || !strings.Contains(r.Err.Detail, "exit code") {
			t.Errorf("%s: %+v", s.Kind, r.Err)
		}
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestGateTimeout(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Put(t, h, `C:\run\x`, "partial")
	stepstest.Put(t, h, `C:\run\x.log`, "still busy")
	s := stepstest.Spec("file_ready", "g", &kinds.FileReady{Path: `C:\run\x`, Contains: "done", Log: `C:\run\x.log`})
	s.Timeout = 200 * time.Millisecond
	r := stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{s})
	if r.Err == nil || r.Err.Code != steps.CodeTimeout || !strings.Contains(r.Err.Detail, `C:\run\x holds done`) ||
		!strings.Contains(r.Err.Detail, "without that text") || !strings.Contains(r.Err.Detail, "still busy") {
		t.Errorf("%+v", r.Err)
	}
	if len(r.Changed) > 0 {
		t.Errorf("a gate changed %v", r.Changed)
	}
}

// late is a machine whose program writes a file after two checks for it.
type late struct {
	host.Host
	looks int
}

func (l *late) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == `C:\run\x` {
		if l.looks++; l.looks == 3 {
			if err := l.WriteFile(ctx, path, strings.NewReader("done"), host.WriteOptions{}); err != nil {
				return nil, err
			}
		}
	}
	return l.Host.Open(ctx, path)
}

func TestGateIsReached(t *testing.T) {
	l := &late{Host: stepstest.OpenHost(t, "windows")}
	r := stepstest.Applied(t, l, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("file_ready", "g", &kinds.FileReady{Path: `C:\run\x`, Contains: "done"})})
	if l.looks != 4 || r.Mutations != 0 {
		t.Errorf("looked %d times, %d mutating calls", l.looks, r.Mutations)
	}
}

// slow is a machine whose services need several checks to start.
type slow struct {
	host.Host
	looks, left int
}

func (s *slow) StartService(ctx context.Context, name string) error {
	s.left = s.looks
	return s.Host.StartService(ctx, name)
}

func (s *slow) Service(ctx context.Context, name string) (host.Service, error) {
	svc, err := s.Host.Service(ctx, name)
	if s.left > 0 && svc.State == host.ServiceRunning {
		s.left--
		svc.State = host.ServiceStarting
	}
	return svc, err
}

func TestServiceThatStartsSlowly(t *testing.T) {
	s := &slow{Host: stepstest.OpenHost(t, "windows"), looks: 3}
	stepstest.Put(t, s, `C:\k\x.exe`, "x")
	list := []steps.Spec{stepstest.Spec("service", "x", stepstest.Service("x", `C:\k\x.exe`))}
	stepstest.Applied(t, s, stepstest.Memory{}, list)
	stepstest.Settled(t, s, stepstest.Memory{}, list)

	s.looks = 1 << 30
	list = []steps.Spec{stepstest.Spec("service", "x", stepstest.Service("x", `C:\k\x.exe`, "-v"))}
	list[0].Timeout = time.Second // it is asked for the first time within that, also on a busy machine
	if r := stepstest.Apply(t, s, stepstest.Memory{}, list); r.Err == nil || r.Err.Code != steps.CodeTimeout ||
		!strings.Contains(r.Err.Detail, "starting") {
		t.Errorf("%+v", r.Err)
	}
	s.left, s.looks = 4, 0
	list[0].Timeout = 20 * time.Second
	stepstest.Applied(t, s, stepstest.Memory{}, list)
	stepstest.Settled(t, s, stepstest.Memory{}, list)
}

// busy is a machine with a service that is still starting and accepts no stop until it runs.
type busy struct {
	host.Host
	name string
	left int // checks until it runs
}

func (b *busy) Service(ctx context.Context, name string) (host.Service, error) {
	svc, err := b.Host.Service(ctx, name)
	if name == b.name && b.left > 0 {
		b.left--
		svc.State = host.ServiceStarting
	}
	return svc, err
}

func (b *busy) StopService(ctx context.Context, name string) error {
	if name == b.name && b.left > 0 {
		return errors.New("Invalid service control.")
	}
	return b.Host.StopService(ctx, name)
}

// TestDependentThatStarts: a service is stopped for a change while a service that depends on it is still starting.
func TestDependentThatStarts(t *testing.T) {
	b := &busy{Host: stepstest.OpenHost(t, "windows"), name: "b"}
	stepstest.Put(t, b, `C:\k\x.exe`, "x")
	list := func(args ...string) []steps.Spec {
		after := stepstest.Service("b", `C:\k\x.exe`)
		after.DependsOn = []string{"a"}
		return []steps.Spec{stepstest.Spec("service", "a", stepstest.Service("a", `C:\k\x.exe`, args...)),
			stepstest.Spec("service", "b", after)}
	}
	stepstest.Applied(t, b, stepstest.Memory{}, list())
	b.left = 4
	stepstest.Applied(t, b, stepstest.Memory{}, list("-v"))
	stepstest.Settled(t, b, stepstest.Memory{}, list("-v"))
}

// What the program wrote when it was last ready is removed before it starts again, and only then: otherwise its gate
// would be open before the program is ready.
func TestServiceRenews(t *testing.T) {
	h := stepstest.OpenHost(t, "linux")
	stepstest.Put(t, h, "/opt/tool", "x")
	s := stepstest.Service("tool", "/opt/tool")
	s.Watch, s.Renews = []string{"/etc/net-conf.json"}, []string{"/srv/subnet.env"}
	list := []steps.Spec{stepstest.Spec("service", "s", s)}
	for _, c := range []struct {
		config string
		stays  bool
	}{{"vxlan", false}, {"vxlan", true}, {"host-gw", false}} {
		stepstest.Put(t, h, "/etc/net-conf.json", c.config)
		stepstest.Put(t, h, "/srv/subnet.env", "FLANNEL_SUBNET=10.244.1.1/24")
		stepstest.Applied(t, h, stepstest.Memory{}, list)
		there, err := host.Exists(t.Context(), h, "/srv/subnet.env")
		if err != nil || there != c.stays {
			t.Errorf("%+v: it is there: %v, %v", c, there, err)
		}
	}
}
