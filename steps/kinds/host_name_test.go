package kinds_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

func named(name string) []steps.Spec {
	return []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: name})}
}

// TestHostNameIsGivenBack: leave gives the machine the name that it came with, which on
// Windows counts after a reboot, and says so.
func TestHostNameIsGivenBack(t *testing.T) {
	for _, c := range []struct{ os, now, reason string }{
		{"windows", "node-2", "as it was before nodejoin; counts after a reboot"},
		{"linux", "came-1", "as it was before nodejoin"},
	} {
		t.Run(c.os, func(t *testing.T) {
			h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(), OS: c.os, Hostname: "came-1"})
			stepstest.Must(t, err)
			for _, name := range []string{"node-1", "node-2"} { // the first earlier name counts
				stepstest.Applied(t, h, stepstest.Memory{}, named(name))
				stepstest.Must(t, h.Reboot(t.Context()))
			}
			if f, err := h.Facts(t.Context()); err != nil || f.Hostname != "node-2" {
				t.Errorf("the facts say %q, %v", f.Hostname, err)
			}
			x := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {})
			foreseen, err := x.CheckLeave(t.Context(), executor.LeaveRequest{Node: "n"})
			stepstest.Must(t, err)
			text := ""
			for _, i := range foreseen.Items {
				text += i.Key.String() + ": " + i.Change.Reason + "\n"
			}
			if want := "host_name:machine: " + c.reason + "\n"; !strings.Contains(text, want) {
				t.Errorf("leave foresees\n%s", text)
			}
			reply, err := x.Leave(t.Context(), executor.LeaveRequest{Node: "n"})
			stepstest.Must(t, err)
			if reply.Err != nil {
				t.Fatal(reply.Err)
			}
			if n, err := h.HostName(t.Context()); err != nil || n != (host.HostName{Now: c.now, Next: "came-1"}) {
				t.Errorf("after leave: %+v, %v", n, err)
			}
			if noted, err := h.RebootNoted(t.Context()); err != nil || (len(noted) > 0) != (c.os == "windows") {
				t.Errorf("noted %q, %v", noted, err)
			}
		})
	}
}

// TestHostNameKept: one that differs in case only is left, and so is that of a member of
// a domain, with what to do instead.
func TestHostNameKept(t *testing.T) {
	dir := t.TempDir()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir, Hostname: "WIN-1"})
	stepstest.Must(t, err)
	if r := stepstest.Apply(t, h, stepstest.Memory{}, named("win-1")); r.Err != nil || r.Mutations > 0 {
		t.Errorf("%d calls, %+v", r.Mutations, r.Err)
	}
	stepstest.Must(t, os.WriteFile(filepath.Join(dir, ".sandbox", "quirks.json"), []byte(`{"domain":"CORP"}`), 0o644))
	if r := stepstest.Apply(t, h, stepstest.Memory{}, named("win-1")); r.Err != nil || r.Mutations > 0 {
		t.Errorf("in a domain, as it is: %d calls, %+v", r.Mutations, r.Err)
	}
	r := stepstest.Apply(t, h, stepstest.Memory{}, named("win-2"))
	if r.Err == nil || r.Mutations > 0 || !strings.Contains(r.Err.Detail, "WIN-1 in the domain CORP") {
		t.Errorf("in a domain: %d calls, %+v", r.Mutations, r.Err)
	}
	stepstest.Must(t, os.WriteFile(filepath.Join(dir, ".sandbox", "quirks.json"), []byte(`{"unasked":["HostName"]}`),
		0o644))
	if r := stepstest.Apply(t, h, stepstest.Memory{}, named("win-2")); r.Err == nil || r.Mutations > 0 ||
		r.Err.Code == steps.CodeInvalid {
		t.Errorf("not to be asked: %d calls, %+v", r.Mutations, r.Err)
	}
}
