package kinds_test

import (
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// A private folder of nodejoin's that stays after a leave, because others have put something into it, gets the access
// of its parent again, wherever the leave was killed. What was private before nodejoin stays private.
func TestFolderThatStaysIsReopened(t *testing.T) {
	for _, system := range []struct{ os, folder, mine, inner, file, theirs string }{
		{"windows", `C:\etc`, `C:\etc\kubernetes`,
			`C:\etc\kubernetes\pki`, `C:\etc\kubernetes\pki\theirs.yaml`, `C:\theirs`},
		{"linux", "/srv", "/srv/kubernetes", "/srv/kubernetes/pki", "/srv/kubernetes/pki/theirs.yaml", "/theirs"},
	} {
		t.Run(system.os, func(t *testing.T) {
			ctx := t.Context()
			joined := newMachine(t, system.os)
			stepstest.Must(t, joined.Mkdir(ctx, system.theirs, host.AccessPrivate))
			list := []steps.Spec{}
			for _, path := range []string{system.folder, system.mine, system.inner, system.theirs} {
				d := &kinds.Directory{Path: path, Access: host.AccessPrivate}
				if path == system.folder {
					d.Access = ""
				}
				list = append(list, stepstest.Spec("directory", path, d))
			}
			stepstest.Applied(t, joined, stepstest.Memory{}, list)
			stepstest.Put(t, joined, system.file, "x")
			for n, done := 0, false; !done; n++ {
				m := joined.copy(t, system.os)
				calls := 0
				killed := leaveOnce(t, host.Intercept(m, func(string, string) error {
					if calls++; calls > n {
						return errKilled
					}
					return nil
				}))
				if done = killed == nil; !done {
					stepstest.Must(t, leaveOnce(t, m))
				}
				for path, want := range map[string]host.Access{system.mine: "", system.inner: "", system.file: "",
					system.theirs: host.AccessPrivate} {
					if fi, err := m.Stat(ctx, path); err != nil || fi.Access != want {
						t.Errorf("killed after %d calls: the access of %s is %q (%v), want %q", n, path, fi.Access, err, want)
					}
				}
			}
		})
	}
}

// leaveOnce runs a leave that may leave things behind.
func leaveOnce(t *testing.T, h host.Host) error {
	t.Helper()
	x := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {})
	reply, err := x.Leave(t.Context(), executor.LeaveRequest{Node: "win-1"})
	if err == nil && reply.Err != nil {
		err = reply.Err
	}
	return err
}
