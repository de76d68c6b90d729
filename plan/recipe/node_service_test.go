package recipe_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	nodeservice "nodejoin/steps/node"
)

// TestHealsAfterBoot: the service that a join leaves repairs the node after a boot that broke its start order,
// and the next run finds nothing to do.
func TestHealsAfterBoot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	n.converge(t, ctx)
	h := n.machine(t)
	if err := h.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	// As after a boot of Windows: the network is gone, and kube-proxy and flanneld have exited without it.
	for _, name := range []string{"kube-proxy", "flanneld"} {
		if err := h.StopService(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.DeleteHNSNetwork(ctx, "flannel.4096"); err != nil {
		t.Fatal(err)
	}
	r, err := n.run(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	if broken := strings.Join(r.changes(), " "); !strings.Contains(broken, "flannel_network") ||
		!strings.Contains(broken, "kube_proxy") {
		t.Fatalf("the boot broke %s", broken)
	}
	var reports []string
	guarding, stop := context.WithCancel(ctx)
	opt := nodeservice.Options{Host: h, Path: `C:\ProgramData\nodejoin\node.json`, LockDir: h.LockDir(),
		Log: func(line string) { t.Log(line) },
		Report: func(_ nodeservice.Level, text string) {
			reports = append(reports, text)
			stop()
		}}
	if err := nodeservice.Run(guarding, opt); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(reports) != 1 || !strings.Contains(reports[0], "Done: flannel_network, flanneld, kube_proxy.") {
		t.Errorf("reported %q", reports)
	}
	if svc, err := h.Service(ctx, "nodejoin-node"); err != nil || svc.State != host.ServiceRunning {
		t.Errorf("nodejoin-node is %q, %v", svc.State, err)
	}
	if r, err = n.run(ctx, h); err != nil {
		t.Fatal(err)
	}
	if again := r.changes(); len(again) > 0 {
		t.Errorf("the next check still finds %v", again)
	}
}

// TestOldServiceGoes: a machine from an earlier version has the service nodejoin-boot with its file, log and event log
// source. The next apply removes them, like everything that the plan no longer names.
func TestOldServiceGoes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	now := n.specs
	n.specs = nil
	old := strings.NewReplacer("nodejoin-node", "nodejoin-boot", "node.json", "boot.json", "node.log", "boot.log",
		`"node",`, `"boot",`)
	for _, s := range now {
		if strings.HasPrefix(s.ID, "node_") || s.ID == "agent" {
			s.Args = steps.RawArgs([]byte(old.Replace(string(s.Args.JSON()))))
		}
		n.specs = append(n.specs, s)
	}
	n.converge(t, ctx)
	h := n.machine(t)
	if svc, err := h.Service(ctx, "nodejoin-boot"); err != nil || svc.State != host.ServiceRunning {
		t.Fatalf("nodejoin-boot is %q, %v", svc.State, err)
	}
	n.specs = now
	n.remove(t, ctx, true)
	n.converge(t, ctx)
	n.remove(t, ctx, false)
	if svc, err := h.Service(ctx, "nodejoin-boot"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nodejoin-boot is %q, %v", svc.State, err)
	}
	for _, path := range []string{`C:\ProgramData\nodejoin\boot.json`, `C:\var\log\nodejoin-boot`} {
		if _, err := h.Stat(ctx, path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	source := `HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\nodejoin-boot`
	if _, err := h.RegistryValue(ctx, source, "TypesSupported"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", source, err)
	}
	if svc, err := h.Service(ctx, "nodejoin-node"); err != nil || svc.State != host.ServiceRunning {
		t.Errorf("nodejoin-node is %q, %v", svc.State, err)
	}
}

// remove removes what the steps no longer name: before they run (early), or the rest after them.
func (n *node) remove(t *testing.T, ctx context.Context, early bool) {
	t.Helper()
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	req := executor.RemoveRequest{Request: executor.Request{Node: "win-1", Plan: "p", Whole: true, Values: r.values},
		Early: early}
	for _, s := range n.specs {
		if place(s) == steps.OnHost {
			req.Steps = append(req.Steps, s)
		}
	}
	reply, err := r.x.Remove(ctx, req)
	if err == nil && reply.Err != nil {
		err = reply.Err
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHNSRestarts: HNS restarts while the node works. Within a minute the service restores what HNS lost, and restarts
// kube-proxy once, because kube-proxy does not notice.
func TestHNSRestarts(t *testing.T) {
	for name, loses := range map[string]bool{"networks and policies": true, "policies": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				ctx, stop := context.WithCancel(t.Context())
				n.converge(t, ctx)
				h := n.machine(t)
				hns := host.ServiceConfig{Name: "hns", Command: []string{`C:\Windows\hns.exe`}, Start: host.StartManual}
				if err := errors.Join(h.WriteFile(ctx, hns.Command[0], strings.NewReader(""), host.WriteOptions{}),
					h.CreateService(ctx, hns), h.StartService(ctx, "hns")); err != nil {
					t.Fatal(err)
				}
				starts := map[string]int{}
				watched := host.Intercept(h, func(op, subject string) error {
					if op == "start service" {
						starts[subject]++
					}
					return nil
				})
				opt := nodeservice.Options{Host: watched, Path: `C:\ProgramData\nodejoin\node.json`, LockDir: h.LockDir(),
					Log: func(line string) { t.Log(line) }, Report: func(_ nodeservice.Level, text string) { t.Log(text) }}
				ended := make(chan error)
				go func() { ended <- nodeservice.Run(ctx, opt) }()
				time.Sleep(90 * time.Second) // of the fake clock: two rounds
				if len(starts) > 0 {
					t.Errorf("a healthy node: started %v", starts)
				}
				err := errors.Join(h.StopService(ctx, "hns"), h.StartService(ctx, "hns"))
				if loses {
					err = errors.Join(err, h.DeleteHNSNetwork(ctx, "flannel.4096"))
				}
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if network, err := h.HNSNetwork(ctx, "flannel.4096"); err != nil || network.ManagementIP == "" {
					t.Errorf("after a minute: %+v, %v", network, err)
				}
				if starts["kube-proxy"] != 1 || starts["flanneld"] != 1 || starts["kubelet"]+starts["containerd"] > 0 {
					t.Errorf("started %v", starts)
				}
				for _, name := range []string{"flanneld", "kube-proxy"} {
					if svc, err := h.Service(ctx, name); err != nil || svc.State != host.ServiceRunning {
						t.Errorf("%s is %q, %v", name, svc.State, err)
					}
				}
				time.Sleep(time.Hour)
				if starts["kube-proxy"] != 1 {
					t.Errorf("an hour later: started %v", starts)
				}
				// A gate closes while its service runs: the service is restarted.
				if err := h.Remove(ctx, `C:\run\flannel\subnet.env`); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				if _, err := h.Stat(ctx, `C:\run\flannel\subnet.env`); err != nil || starts["flanneld"] != 2 {
					t.Errorf("without subnet.env: started %v, %v", starts, err)
				}
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				r, err := n.run(t.Context(), n.machine(t))
				if err != nil {
					t.Fatal(err)
				}
				if again := r.changes(); len(again) > 0 {
					t.Errorf("the next check still finds %v", again)
				}
			})
		})
	}
}
