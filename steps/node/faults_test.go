package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/hostlock"
)

// faulty is a guarded machine that things happen to.
type faulty struct {
	*machine
	broken time.Time      // until then b does not start
	full   time.Time      // until then the disk is full
	starts map[string]int // of services, by the guard
	tries  int            // starts that failed
}

// host is the machine as its guard sees it.
func (f *faulty) host() host.Host {
	return fullDisk{host.Intercept(f.Host, func(op, subject string) error {
		if op != "start service" {
			return nil
		}
		if subject == "b" && time.Now().Before(f.broken) {
			f.tries++
			return errors.New("it does not start")
		}
		f.starts[subject]++
		return nil
	}), f}
}

// fullDisk is a machine whose disk is sometimes full.
type fullDisk struct {
	host.Host
	f *faulty
}

func (d fullDisk) FreeBytes(ctx context.Context, path string) (uint64, error) {
	if time.Now().Before(d.f.full) {
		return 100 << 20, nil
	}
	return d.Host.FreeBytes(ctx, path)
}

func (f *faulty) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// faults are what happens to a machine between two applies.
var faults = []struct {
	name string
	make func(f *faulty, ctx context.Context)
}{
	{"both services end", func(f *faulty, _ context.Context) { f.stop("b", "a") }},
	{"a service ends", func(f *faulty, _ context.Context) { f.stop("b") }},
	{"a configuration is deleted", func(f *faulty, ctx context.Context) { f.do(f.Remove(ctx, config)) }},
	{"a configuration is changed", func(f *faulty, _ context.Context) { f.write(config, "vip 127.0.0.1\n") }},
	{"the source VIP is given to a pod", func(f *faulty, ctx context.Context) {
		f.write(`C:\var\lib\cni\networks\n\10.244.3.2`, "a pod\r\neth0")
	}},
	{"the source VIP is lost", func(f *faulty, ctx context.Context) {
		f.do(errors.Join(f.Remove(ctx, `C:\var\lib\cni\networks\n\10.244.3.2`),
			f.Remove(ctx, `C:\var\lib\cni\networks\n\10.244.3.3`)))
	}},
	{"HNS restarts", func(f *faulty, ctx context.Context) {
		f.do(errors.Join(f.StopService(ctx, hnsService), f.StartService(ctx, hnsService)))
	}},
	{"HNS restarts and loses the network", func(f *faulty, ctx context.Context) {
		f.do(errors.Join(f.StopService(ctx, hnsService), f.DeleteHNSNetwork(ctx, network), f.StartService(ctx, hnsService)))
	}},
	{"a service does not start for 20 minutes", func(f *faulty, _ context.Context) {
		f.broken = time.Now().Add(20 * time.Minute)
		f.stop("b")
	}},
	{"the disk is full for 10 minutes", func(f *faulty, _ context.Context) { f.full = time.Now().Add(10 * time.Minute) }},
	{"another run holds the machine for 5 minutes", func(f *faulty, ctx context.Context) {
		run := hostlock.New(f.lockDir)
		reply, err := run.Take(ctx, steps.LockRequest{Holder: steps.LockHolder{Run: "1", Command: "apply", User: "alice",
			Since: time.Now()}})
		f.do(err)
		if reply.By != nil {
			return // the guard is at work
		}
		f.stop("b")
		time.Sleep(5 * time.Minute)
		if s, err := f.Service(ctx, "b"); err != nil || s.State != host.ServiceStopped {
			f.t.Errorf("the guard worked beside an apply: b is %q, %v", s.State, err)
		}
		f.do(run.Release())
	}},
	{"a person stops a service while the node is paused", func(f *faulty, ctx context.Context) {
		x := executor.NewExecutor(nil, f.Host, none{}, nil)
		pause := &steps.GuardPause{By: "alice", Since: time.Now(), Until: time.Now().Add(5 * time.Minute)}
		_, err := x.Pause(ctx, executor.PauseRequest{Pause: pause})
		f.do(err)
		before := f.starts["b"]
		f.stop("b")
		time.Sleep(4 * time.Minute)
		if f.starts["b"] != before {
			f.t.Error("the guard started a service that a person had stopped")
		}
		time.Sleep(time.Minute)
	}},
}

// TestDayOfFaults: 200 faults on one day. Each is fixed or reported within 75 seconds. No service starts more often
// than it had faults, and at the end everything is in order.
func TestDayOfFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		f := &faulty{starts: map[string]int{}, machine: newGuarded(t, &steps.Guard{Interval: time.Minute, Network: network,
			Restart: "b", Folders: []string{`C:\var`}, API: "https://10.0.0.10:6443"})}
		f.write(`C:\k\hns.exe`, "hns")
		f.do(errors.Join(f.CreateService(ctx, host.ServiceConfig{Name: hnsService, Command: []string{`C:\k\hns.exe`},
			Start: host.StartManual}), f.StartService(ctx, hnsService)))
		opt := f.options(f.host())
		opt.Pause = 0
		ended := make(chan error)
		go func() { ended <- Run(ctx, opt) }()
		time.Sleep(time.Minute)
		random := rand.New(rand.NewPCG(1, 2))
		made := map[string]int{}
		for range 200 {
			time.Sleep(time.Duration(random.Int64N(int64(12 * time.Minute))))
			fault := faults[random.IntN(len(faults))]
			made[fault.name]++
			fault.make(f, ctx)
			time.Sleep(75 * time.Second)
			facts, err := f.Facts(ctx)
			f.do(err)
			state, err := executor.GuardState(ctx, f.Host, facts)
			f.do(err)
			if state == nil || time.Since(state.At) > 65*time.Second {
				t.Fatalf("%s: the guard is silent: %+v", fault.name, state)
			}
			if wrong := f.wrong(ctx); wrong != "" && len(state.Problems) == 0 {
				t.Errorf("%s: %s, which is neither fixed nor reported", fault.name, wrong)
			}
		}
		time.Sleep(2 * time.Hour)
		if wrong := f.wrong(ctx); wrong != "" {
			t.Errorf("at the end of the day: %s\n%s", wrong, strings.Join(f.lines[max(0, len(f.lines)-30):], "\n"))
		}
		never := made["a service does not start for 20 minutes"]
		if f.starts["b"] > 200 || f.starts["a"] > made["both services end"] || f.tries > 40*never {
			t.Errorf("flapping: starts %v, %d that failed, of %v", f.starts, f.tries, made)
		}
		t.Logf("%v; starts %v, %d failed; %d reports", made, f.starts, f.tries, len(f.reports))
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// wrong reports what does not work on the machine.
func (f *faulty) wrong(ctx context.Context) string {
	for _, name := range []string{"a", "b"} {
		if s, err := f.Service(ctx, name); err != nil || s.State != host.ServiceRunning {
			return "service " + name + " does not run"
		}
	}
	if n, err := f.HNSNetwork(ctx, network); err != nil || n.ManagementIP == "" {
		return "there is no HNS network"
	}
	text, _, err := host.ReadTail(ctx, f, config, 1000)
	if err != nil || !strings.Contains(string(text), "vip 10.244.3.") {
		return "the configuration is another one"
	}
	return ""
}
