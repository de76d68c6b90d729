package kinds_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// network is a machine whose service x removes its file when it starts and writes it again much later, as flanneld
// does with its network on a slow machine.
type network struct {
	host.Host
	takes time.Duration
	opens time.Time
	began int
}

const networkFile = `C:\run\x`

func (n *network) StartService(ctx context.Context, name string) error {
	if name == "x" {
		n.began++
		n.opens = time.Now().Add(n.takes)
		if err := n.Remove(ctx, networkFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return n.Host.StartService(ctx, name)
}

func (n *network) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == networkFile && !n.opens.IsZero() && !time.Now().Before(n.opens) {
		n.opens = time.Time{}
		if err := n.WriteFile(ctx, path, strings.NewReader("done"), host.WriteOptions{}); err != nil {
			return nil, err
		}
	}
	return n.Host.Open(ctx, path)
}

// TestGateOfAServiceThatWasJustStarted: a gate was open in an earlier run and is closed because this run has started
// its service. The run waits for it and restarts nothing.
func TestGateOfAServiceThatWasJustStarted(t *testing.T) {
	for name, first := range map[string]struct{ service, base string }{
		"its own step starts it":           {service: "-new"},
		"it starts again with another one": {base: "-new"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &network{Host: stepstest.OpenHost(t, "windows"), takes: 40 * time.Second}
				stepstest.Put(t, h, `C:\k\x.exe`, "x")
				plan := func(service, base string) []steps.Spec {
					x := stepstest.Service("x", `C:\k\x.exe`, service)
					x.DependsOn = []string{"base"}
					gate := stepstest.Spec("file_ready", "gate",
						&kinds.FileReady{Path: networkFile, Contains: "done", Service: "x"})
					gate.Timeout = 3 * time.Minute
					gate.After = []string{"x"}
					y := stepstest.Spec("service", "y", stepstest.Service("y", `C:\k\x.exe`))
					y.After = []string{"gate"}
					return []steps.Spec{stepstest.Spec("service", "base", stepstest.Service("base", `C:\k\x.exe`, base)),
						stepstest.Spec("service", "x", x), gate, y}
				}
				apply := func(service, base string) {
					t.Helper()
					if _, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", plan(service, base)); err != nil {
						t.Fatal(err)
					}
				}
				pid := func(service string) int {
					t.Helper()
					svc, err := h.Service(t.Context(), service)
					stepstest.Must(t, err)
					return svc.PID
				}
				apply("", "")
				h.began = 0
				y := pid("y")
				apply(first.service, first.base)
				if h.began != 1 || pid("y") != y {
					t.Errorf("x was started %d times, want once; y was restarted: %v", h.began, pid("y") != y)
				}
				apply(first.service, first.base)
				if h.began != 1 || pid("y") != y {
					t.Errorf("the next run starts x again (%d starts), or y (%v)", h.began, pid("y") != y)
				}
			})
		})
	}
}

// TestGateOfAServiceThatOthersStarted: what is missing behind a service that its recovery or a person has started is
// drift and is restored within seconds. Soon after a boot it may still appear by itself, so the run waits.
func TestGateOfAServiceThatOthersStarted(t *testing.T) {
	for name, c := range map[string]struct{ up, least, most time.Duration }{
		"long after the boot": {time.Hour, 5 * time.Second, 20 * time.Second},
		"soon after the boot": {time.Second, 50 * time.Second, 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &network{Host: stepstest.OpenHost(t, "windows")}
				stepstest.Put(t, h, `C:\k\x.exe`, "x")
				gate := stepstest.Spec("file_ready", "gate",
					&kinds.FileReady{Path: networkFile, Contains: "done", Service: "x"})
				gate.Timeout, gate.After = 3*time.Minute, []string{"x"}
				list := []steps.Spec{stepstest.Spec("service", "x", stepstest.Service("x", `C:\k\x.exe`)), gate}
				apply := func() {
					t.Helper()
					_, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", list)
					stepstest.Must(t, err)
				}
				apply()
				time.Sleep(c.up)
				stepstest.Must(t, h.StopService(t.Context(), "x"))
				stepstest.Must(t, h.Host.StartService(t.Context(), "x"))
				stepstest.Must(t, h.Remove(t.Context(), networkFile))
				h.began = 0
				start := time.Now()
				apply()
				if took := time.Since(start); h.began != 1 || took < c.least || took > c.most {
					t.Errorf("x was started %d times, after %s", h.began, took)
				}
			})
		})
	}
}
