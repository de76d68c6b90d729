package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

const (
	strandedDir  = `C:\Program Files\containerd`
	strandedShim = strandedDir + `\containerd-shim-runhcs-v1.exe`
	strandedPipe = `\\.\pipe\containerd-containerd`
)

// strandedNode is a machine whose containerd runs three pods, each with a shim and an endpoint in a network that
// existed before nodejoin.
func strandedNode(t *testing.T) *machine {
	t.Helper()
	ctx := t.Context()
	m := newMachine(t, "windows")
	stepstest.Must(t, m.PutHNSNetwork(ctx, host.HNSNetwork{ID: "net-1", Name: "External", Type: "L2Bridge"}))
	stepstest.Must(t, m.PutHNSEndpoint(ctx, host.HNSEndpoint{ID: "theirs", Name: "Ethernet", Network: "net-1"}))
	exe := strandedDir + `\containerd.exe`
	svc := stepstest.Service("containerd", exe)
	svc.Pods = strandedPipe
	stepstest.Applied(t, m, stepstest.Memory{}, []steps.Spec{
		stepstest.Spec("file", "shim", &kinds.File{Path: strandedShim, Content: "x"}),
		stepstest.Spec("file", "containerd", &kinds.File{Path: exe, Content: "x"}),
		stepstest.Spec("service", "service", svc),
	})
	for i := range 3 {
		stepstest.Must(t, m.PutPod(ctx, host.Pod{ID: fmt.Sprintf("%064x", i), Namespace: "d", Name: fmt.Sprint(i)},
			strandedShim))
	}
	return m
}

// hung is a machine whose container runtime answers but does not end pods.
type hung struct{ host.Host }

func (hung) RemovePod(context.Context, string, string) error {
	return errors.New("no answer within 1m0s")
}

// A leave ends what containerd has left of its pods if containerd does not end them, has crashed, or is no longer
// registered: the shims with their programs, and the endpoints in a network that stays, wherever the leave was killed.
func TestLeaveEndsStrandedPods(t *testing.T) {
	for name, strand := range map[string]func(t *testing.T, m *machine) host.Host{
		"works": func(_ *testing.T, m *machine) host.Host { return m },
		"hangs": func(_ *testing.T, m *machine) host.Host { return hung{m} },
		"has crashed": func(t *testing.T, m *machine) host.Host {
			stepstest.Must(t, m.StopService(t.Context(), "containerd"))
			return m
		},
		"is unregistered": func(t *testing.T, m *machine) host.Host {
			stepstest.Must(t, m.StopService(t.Context(), "containerd"))
			stepstest.Must(t, m.DeleteService(t.Context(), "containerd"))
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			joined := strandedNode(t)
			for n, done := 0, false; !done; n++ {
				m := joined.copy(t, "windows")
				h := strand(t, m)
				calls := 0
				killed := leaveOnce(t, host.Intercept(h, func(string, string) error {
					if calls++; calls > n {
						return errKilled
					}
					return nil
				}))
				if done = killed == nil; !done {
					stepstest.Must(t, leaveOnce(t, h))
				}
				wantNoPods(t, m, fmt.Sprintf("killed after %d calls", n))
			}
		})
	}
}

func wantNoPods(t *testing.T, m *machine, when string) {
	t.Helper()
	ctx := t.Context()
	if pids, err := m.Processes(ctx, strandedShim); err != nil || len(pids) > 0 {
		t.Errorf("%s: shims run: %v, %v", when, pids, err)
	}
	endpoints, err := m.HNSEndpoints(ctx)
	if err != nil || len(endpoints) != 1 || endpoints[0].ID != "theirs" {
		t.Errorf("%s: the endpoints are %v, %v", when, endpoints, err)
	}
	if _, err := m.Stat(ctx, strandedDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %s: %v", when, strandedDir, err)
	}
	if _, err := m.HNSNetwork(ctx, "External"); err != nil {
		t.Errorf("%s: the network of others: %v", when, err)
	}
}

// A leave does not kill the pods of a runtime whose shims are not nodejoin's; pods that do not end are an error.
func TestLeaveKillsNoShimsOfOthers(t *testing.T) {
	m := newMachine(t, "windows")
	stepstest.Put(t, m, strandedShim, "theirs")
	svc := stepstest.Service("containerd", `C:\k\containerd.exe`)
	svc.Pods = strandedPipe
	stepstest.Applied(t, m, stepstest.Memory{}, []steps.Spec{
		stepstest.Spec("file", "containerd", &kinds.File{Path: `C:\k\containerd.exe`, Content: "x"}),
		stepstest.Spec("service", "service", svc)})
	stepstest.Must(t, m.PutPod(t.Context(), host.Pod{ID: "1", Namespace: "d", Name: "web"}, strandedShim))
	if err := leaveOnce(t, hung{m}); err == nil || !strings.Contains(err.Error(), "pod d/web") {
		t.Errorf("the leave: %v", err)
	}
	if pids, err := m.Processes(t.Context(), strandedShim); err != nil || len(pids) != 1 {
		t.Errorf("the shim of others: %v, %v", pids, err)
	}
}
