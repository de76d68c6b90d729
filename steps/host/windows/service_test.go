//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"nodejoin/steps/host"
)

// serviceArg as first argument makes the test binary a service; the next says which kind.
const serviceArg = "nodejoin-test-service"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == serviceArg {
		os.Exit(runService(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == FeatureCommand {
		os.Exit(FeatureService(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == enableArg {
		if err := enable(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == sleepArg {
		time.Sleep(time.Minute) // a program that runs until it is killed
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == printArg {
		first, _, _ := strings.Cut(os.Getenv("PATH"), ";")
		fmt.Println(first)
		fmt.Fprintln(os.Stderr, "end")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

const (
	sleepArg = "nodejoin-test-sleep"
	printArg = "nodejoin-test-print" // prints the first folder of its PATH and ends with code 3
)

func runService(kind string) int {
	if kind == "deaf" {
		// Like a log runner: a child answers the service manager and ends; this process stays.
		if err := exec.Command(os.Args[0], serviceArg, "dies").Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		time.Sleep(time.Hour)
	}
	if err := svc.Run("", testService(kind)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if kind == "lingers" {
		time.Sleep(time.Hour)
	}
	return 0
}

type testService string

func (kind testService) Execute(_ []string, requests <-chan svc.ChangeRequest,
	status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.StartPending}
	if kind == "exits" {
		return true, 3
	}
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for r := range requests {
		switch r.Cmd {
		case svc.Interrogate:
			status <- r.CurrentStatus
		case svc.Stop, svc.Shutdown:
			if kind == "dies" {
				os.Exit(3)
			}
			status <- svc.Status{State: svc.StopPending}
			return false, 0
		}
	}
	return false, 0
}

func newHost(t *testing.T) *Host {
	t.Helper()
	h, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func context30(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// testConfig is a service that runs this binary; it is deleted when the test ends.
func testConfig(t *testing.T, h *Host, name, kind string) host.ServiceConfig {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := h.StopService(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := h.DeleteService(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return host.ServiceConfig{
		Name: name, DisplayName: name, Description: "made by a test",
		Command: []string{exe, serviceArg, kind, "", `two words`, `quo"te`, `C:\trailing slash\`}, Start: host.StartManual,
	}
}

func waitState(ctx context.Context, t *testing.T, h *Host, name string, want host.ServiceState) host.Service {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := h.Service(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if s.State == want {
			return s
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s is %s, not %s", name, s.State, want)
		case <-tick.C:
		}
	}
}

func TestServiceConfigRoundTrip(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	want := testConfig(t, h, "njt-config", "runs")
	if _, err := h.Service(ctx, want.Name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("absent service: %v", err)
	}
	if err := h.CreateService(ctx, want); err != nil {
		t.Fatal(err)
	}
	check := func(step string) {
		t.Helper()
		have, err := h.Service(ctx, want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, have.ServiceConfig); diff != "" {
			t.Fatalf("%s (-want +have):\n%s", step, diff)
		}
	}
	check("created")
	if err := h.CreateService(ctx, want); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	base := want
	want.Start, want.Description, want.DisplayName = host.StartDelayed, "changed", "Changed"
	want.DependsOn = []string{"EventLog", "njt-other"}
	want.Environment = []string{"A=1", "B=two words"}
	want.Recovery = []host.RecoveryAction{{Action: "restart", Delay: 5 * time.Second}, {Action: "none"}}
	want.RecoveryReset = 3600
	if err := h.UpdateService(ctx, want); err != nil {
		t.Fatal(err)
	}
	check("updated")
	want.RecoveryReset = 0
	if err := h.UpdateService(ctx, want); err != nil {
		t.Fatal(err)
	}
	check("never reset")
	want = base
	want.Description = ""
	if err := h.UpdateService(ctx, want); err != nil {
		t.Fatal(err)
	}
	check("cleared")
}

// TestServiceAltered: an account, an error control and a failure flag that somebody else has set are seen, and an
// update sets them as they were made.
func TestServiceAltered(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	want := testConfig(t, h, "njt-altered", "runs")
	want.Recovery = []host.RecoveryAction{{Action: "restart", Delay: 5 * time.Second}}
	if err := h.CreateService(ctx, want); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(s *mgr.Service) error{
		`its account is NT AUTHORITY\LocalService`: func(s *mgr.Service) error {
			account, err := windows.UTF16PtrFromString(`NT AUTHORITY\LocalService`)
			if err != nil {
				return err
			}
			return windows.ChangeServiceConfig(s.Handle, windows.SERVICE_NO_CHANGE, windows.SERVICE_NO_CHANGE,
				windows.SERVICE_NO_CHANGE, nil, nil, nil, nil, account, nil, nil)
		},
		"its error control is 0": func(s *mgr.Service) error {
			return windows.ChangeServiceConfig(s.Handle, windows.SERVICE_NO_CHANGE, windows.SERVICE_NO_CHANGE,
				windows.SERVICE_ERROR_IGNORE, nil, nil, nil, nil, nil, nil, nil)
		},
		"restart_on_crash": func(s *mgr.Service) error { return s.SetRecoveryActionsOnNonCrashFailures(false) },
	} {
		err := withService(ctx, "change", want.Name, changeRights,
			func(_ *mgr.Mgr, s *mgr.Service) error { return change(s) })
		if err != nil {
			t.Fatal(err)
		}
		have, err := h.Service(ctx, want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if have.Altered != what && have.Recovery[0].Action != what {
			t.Errorf("%s: altered is %q, recovery %v", what, have.Altered, have.Recovery)
		}
		if err := h.UpdateService(ctx, want); err != nil {
			t.Fatal(err)
		}
		have, err = h.Service(ctx, want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(host.Service{ServiceConfig: want, State: host.ServiceStopped}, have); diff != "" {
			t.Errorf("%s, updated (-want +have):\n%s", what, diff)
		}
	}
}

func TestServiceRuns(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	base, top := testConfig(t, h, "njt-base", "runs"), testConfig(t, h, "njt-top", "runs")
	top.DependsOn = []string{base.Name}
	for _, c := range []host.ServiceConfig{base, top} {
		if err := h.CreateService(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.StopService(ctx, base.Name); err != nil {
		t.Errorf("stop of a stopped service: %v", err)
	}
	for _, name := range []string{base.Name, top.Name} {
		if err := h.StartService(ctx, name); err != nil {
			t.Fatal(err)
		}
		if s := waitState(ctx, t, h, name, host.ServiceRunning); s.PID == 0 {
			t.Errorf("%s runs without a process", name)
		}
	}
	if err := h.StartService(ctx, base.Name); !errors.Is(err, host.ErrServiceRunning) {
		t.Errorf("second start: %v", err)
	}
	if err := h.StopService(ctx, base.Name); !errors.Is(err, host.ErrDependents) {
		t.Errorf("stop with a running dependent: %v", err)
	}
	names, err := h.Dependents(ctx, base.Name)
	if diff := cmp.Diff([]string{top.Name}, names); err != nil || diff != "" {
		t.Errorf("dependents: %v %s", err, diff)
	}
	if err := h.DeleteService(ctx, base.Name); !errors.Is(err, host.ErrServiceRunning) {
		t.Errorf("delete of a running service: %v", err)
	}
	for _, name := range []string{top.Name, base.Name} {
		if err := h.StopService(ctx, name); err != nil {
			t.Fatal(err)
		}
		if s := waitState(ctx, t, h, name, host.ServiceStopped); s.PID != 0 {
			t.Errorf("%s is stopped with process %d", name, s.PID)
		}
	}
	if err := h.DeleteService(ctx, base.Name); !errors.Is(err, host.ErrDependents) {
		t.Errorf("delete with a registered dependent: %v", err)
	}
	if err := h.DeleteService(ctx, top.Name); err != nil {
		t.Error(err)
	}
	if err := h.DeleteService(ctx, top.Name); err != nil {
		t.Errorf("delete of an absent service: %v", err)
	}
}

// TestStartIsRepeated: a start that fails for a reason that passes is repeated, for ten seconds; others fail at once.
func TestStartIsRepeated(t *testing.T) {
	for _, c := range []struct {
		err   windows.Errno
		times int // that it is the answer; then the service starts
		want  error
	}{
		{windows.ERROR_SHARING_VIOLATION, 3, nil},
		{windows.ERROR_SERVICE_DATABASE_LOCKED, 3, nil},
		{windows.ERROR_INTERNAL_ERROR, 1, nil},
		{windows.ERROR_SHARING_VIOLATION, 1000, windows.ERROR_SHARING_VIOLATION},
		{windows.ERROR_SERVICE_ALREADY_RUNNING, 1, windows.ERROR_SERVICE_ALREADY_RUNNING},
		{windows.ERROR_SERVICE_LOGON_FAILED, 1, windows.ERROR_SERVICE_LOGON_FAILED},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, asked := time.Now(), 0
			err := start(t.Context(), func() error {
				if asked++; asked <= c.times {
					return c.err
				}
				return nil
			})
			if !errors.Is(err, c.want) || time.Since(began) > startBound {
				t.Errorf("%v %d times: %v after %d starts in %v", c.err, c.times, err, asked, time.Since(began))
			}
			if again := asked > 1; again != slices.Contains(passing, c.err) {
				t.Errorf("%v: %d starts", c.err, asked)
			}
		})
	}
}

// TestServiceThatDiesIsStopped: a process that ends at once on a stop request may not answer
// it, and the service manager then returns the error of its pipe.
func TestServiceThatDiesIsStopped(t *testing.T) {
	h, ctx := newHost(t), context30(t)
	c := testConfig(t, h, "njt-dies", "dies")
	if err := h.CreateService(ctx, c); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := h.StartService(ctx, c.Name); err != nil {
			t.Fatal(err)
		}
		waitState(ctx, t, h, c.Name, host.ServiceRunning)
		if err := h.StopService(ctx, c.Name); err != nil {
			t.Fatal(err)
		}
		waitState(ctx, t, h, c.Name, host.ServiceStopped)
	}
}

// TestServiceEndsWithItsProcess: a stop ends a process that does not react, because the one
// that answered the service manager has ended. It also ends a process that has reported
// stopped but keeps running.
func TestServiceEndsWithItsProcess(t *testing.T) {
	for kind, bound := range map[string]*time.Duration{"deaf": &deafBound, "lingers": &endBound} {
		t.Run(kind, func(t *testing.T) {
			former := *bound
			*bound = 2 * time.Second
			t.Cleanup(func() { *bound = former })
			h, ctx := newHost(t), context30(t)
			c := testConfig(t, h, "njt-"+kind, kind)
			if err := h.CreateService(ctx, c); err != nil {
				t.Fatal(err)
			}
			if err := h.StartService(ctx, c.Name); err != nil {
				t.Fatal(err)
			}
			pid := waitState(ctx, t, h, c.Name, host.ServiceRunning).PID
			if err := h.StopService(ctx, c.Name); err != nil {
				t.Fatal(err)
			}
			waitState(ctx, t, h, c.Name, host.ServiceStopped)
			p, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
			if err != nil {
				return // it is gone
			}
			defer windows.CloseHandle(p)
			if event, err := windows.WaitForSingleObject(p, 0); err != nil || event != windows.WAIT_OBJECT_0 {
				t.Errorf("process %d still runs (%d, %v)", pid, event, err)
			}
		})
	}
}

// TestForeignServicesThatCannotBeRead: the stand-in machine has services that cannot be read (15100,
// access denied) or opened. They block nothing, and the registry shows which services they depend on.
func TestForeignServicesThatCannotBeRead(t *testing.T) {
	onlyStandIn(t)
	h, ctx := newHost(t), context30(t)
	for name, code := range map[string]error{"dcsvc": windows.ERROR_MUI_FILE_NOT_FOUND,
		"GuardedAgent": windows.ERROR_ACCESS_DENIED, "GuardedSensor": windows.ERROR_ACCESS_DENIED} {
		if _, err := h.Service(ctx, name); !errors.Is(err, code) {
			t.Fatalf("service %s of the stand-in: %v, want %v", name, err, code)
		}
	}
	base, other := testConfig(t, h, "njt-read", "runs"), testConfig(t, h, "njt-unread", "runs")
	other.DependsOn = []string{base.Name}
	for _, c := range []host.ServiceConfig{base, other} {
		if err := h.CreateService(ctx, c); err != nil {
			t.Fatal(err)
		}
		if err := h.StartService(ctx, c.Name); err != nil {
			t.Fatal(err)
		}
		waitState(ctx, t, h, c.Name, host.ServiceRunning)
	}
	refuse := host.RegistryValue{Type: "dword", Number: uint64(windows.ERROR_MUI_FILE_NOT_FOUND)}
	if err := h.SetRegistryValue(ctx, servicesKey+other.Name, "StandInQueryError", refuse); err != nil {
		t.Fatal(err)
	}
	if err := h.StopService(ctx, base.Name); !errors.Is(err, host.ErrDependents) {
		t.Errorf("stop with a running dependent that cannot be read: %v", err)
	}
	if err := h.DeleteRegistryValue(ctx, servicesKey+other.Name, "StandInQueryError"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{other.Name, base.Name} {
		if err := h.StopService(ctx, name); err != nil {
			t.Error(err)
		}
		if err := h.DeleteService(ctx, name); err != nil {
			t.Error(err)
		}
	}
}
