package kinds_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// programs are the artifacts of the generations of a machine.
var programs = stepstest.Memory{"http://m/one": []byte("stand-in one"), "http://m/two": []byte("stand-in two"),
	"http://m/three": []byte("stand-in three")}

// withSnapshot applies the list with a snapshot. The executor belongs to one connection.
func withSnapshot(t *testing.T, h host.Host, list []steps.Spec) *executor.Executor {
	t.Helper()
	x := executor.NewExecutor(kinds.Catalog(), h, programs, func(event.Event) {})
	reply, err := x.Apply(t.Context(), executor.Request{Node: "win-1", Steps: list,
		Snapshot: &executor.NodeBefore{UID: "uid", Ready: true, Version: "1.35.4"}})
	stepstest.Must(t, err)
	if reply.Err != nil {
		t.Fatalf("step %s: %v", reply.Failed, reply.Err)
	}
	return x
}

func running(t *testing.T, h host.Host, name string) []string {
	t.Helper()
	svc, err := h.Service(t.Context(), name)
	stepstest.Must(t, err)
	if svc.State != host.ServiceRunning {
		t.Errorf("service %s is %s", name, svc.State)
	}
	return svc.Environment
}

// machineOf returns a service with a secret in its environment, its program, a variable with another secret, and
// things that are not nodejoin's.
func machineOf(generation string) []steps.Spec {
	svc := stepstest.Service("worker", `C:\k\worker.exe`)
	svc.Environment, svc.SensitiveEnvironment = []string{"TOKEN=service-secret-" + generation}, []string{"TOKEN"}
	return []steps.Spec{
		stepstest.Spec("binary", "program",
			&kinds.Binary{Source: steps.Source{URL: "http://m/" + generation,
				SHA512: stepstest.Hex512(programs["http://m/"+generation])}, Path: `C:\k\worker.exe`,
				Services: []string{"worker"}}),
		stepstest.Spec("file", "config", &kinds.File{Path: `C:\k\secret.conf`, Content: "file-secret-" + generation,
			Sensitive: true, Access: host.AccessPrivate}),
		stepstest.Spec("file", "theirs", &kinds.File{Path: `C:\theirs.txt`, Content: "ours " + generation}),
		stepstest.Spec("env", "proxy",
			&kinds.MachineEnv{Name: "HTTP_PROXY", Value: "http://u:env-secret-" + generation + "@p", Sensitive: true}),
		stepstest.Spec("service", "worker", svc),
	}
}

// A rollback restores what was changed since the snapshot, by whatever connection. Meanwhile the record holds no
// secrets, and what nodejoin stores for a leave stays.
func TestRollback(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	// too large for the record
	stepstest.Must(t, h.WriteFile(t.Context(), `C:\theirs.txt`, strings.NewReader(strings.Repeat("theirs ", 20000)),
		host.WriteOptions{}))
	stepstest.Applied(t, h, programs, machineOf("one"))
	stored := previousFiles(t, h)
	x := withSnapshot(t, h, machineOf("two"))
	if record := stepstest.Text(t, h, `C:\ProgramData\nodejoin\record.json`); strings.Contains(record, "-secret-") {
		t.Error("the record holds a secret")
	}
	for range 2 { // the connection that made the changes, then another one, which gets the same reply
		reply, err := x.Rollback(t.Context(), executor.RollbackRequest{Node: "win-1"})
		stepstest.Must(t, err)
		if reply.Err != nil || len(reply.Left) > 0 || reply.Before == nil || reply.Before.Version != "1.35.4" ||
			!cmp.Equal(reply.Services, []string{"worker"}) {
			t.Fatalf("%s: %v; %+v", reply.Failed, reply.Err, reply)
		}
		stepstest.Settled(t, h, programs, machineOf("one"))
		if env := running(t, h, "worker"); !cmp.Equal(env, []string{"TOKEN=service-secret-one"}) {
			t.Errorf("environment %q", env)
		}
		x = executor.NewExecutor(kinds.Catalog(), h, programs, func(event.Event) {})
	}
	stepstest.Must(t, x.Verified(t.Context()))
	if diff := cmp.Diff(stored, previousFiles(t, h)); diff != "" {
		t.Errorf("stored (-before +after):\n%s", diff)
	}
	if reply, err := x.Rollback(t.Context(), executor.RollbackRequest{Node: "win-1"}); err != nil || reply.Before != nil {
		t.Errorf("once it is verified: %+v, %v", reply, err)
	}
	reply, err := x.Leave(t.Context(), executor.LeaveRequest{Node: "win-1"})
	stepstest.Must(t, err)
	if reply.Err != nil || !strings.HasPrefix(stepstest.Text(t, h, `C:\theirs.txt`), "theirs ") {
		t.Errorf("%v; the file holds %.20q", reply.Err, stepstest.Text(t, h, `C:\theirs.txt`))
	}
}

// A verified snapshot leaves nothing behind, and nothing can be rolled back any more. A snapshot of another connection
// continues.
func TestSnapshotVerified(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Applied(t, h, programs, machineOf("one"))
	stored := previousFiles(t, h)
	withSnapshot(t, h, machineOf("two"))
	x := withSnapshot(t, h, machineOf("three"))
	check, err := executor.NewExecutor(kinds.Catalog(), h, programs, func(event.Event) {}).Check(t.Context(),
		executor.Request{Node: "win-1"})
	if err != nil || check.Snapshot == nil || check.Snapshot.Node.Version != "1.35.4" {
		t.Errorf("a check reports %+v, %v", check.Snapshot, err)
	}
	stepstest.Must(t, x.Verified(t.Context()))
	// no snapshot is no error
	stepstest.Must(t, executor.NewExecutor(kinds.Catalog(), h, programs, func(event.Event) {}).Verified(t.Context()))
	reply, err := x.Rollback(t.Context(), executor.RollbackRequest{Node: "win-1"})
	if err != nil || reply.Before != nil {
		t.Errorf("%+v, %v", reply, err)
	}
	if diff := cmp.Diff(stored, previousFiles(t, h)); diff != "" {
		t.Errorf("stored (-before +after):\n%s", diff)
	}
	stepstest.Settled(t, h, programs, machineOf("three"))
}

// A rollback does not stop a running service that the run did not touch.
func TestRollbackLeavesRunningAlone(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	list := machineOf("one")
	stepstest.Applied(t, h, programs, list)
	before, err := h.Service(t.Context(), "worker")
	stepstest.Must(t, err)
	x := withSnapshot(t, h,
		append(list, stepstest.Spec("file", "more", &kinds.File{Path: `C:\k\sub\more.txt`, Content: "x"})))
	reply, err := x.Rollback(t.Context(), executor.RollbackRequest{Node: "win-1"})
	stepstest.Must(t, err)
	after, err := h.Service(t.Context(), "worker")
	stepstest.Must(t, err)
	if reply.Err != nil || len(reply.Services) > 0 || after.PID != before.PID {
		t.Errorf("%v; started %v; process %d was %d", reply.Err, reply.Services, after.PID, before.PID)
	}
	if _, err := h.Stat(t.Context(), `C:\k\sub`); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}

func previousFiles(t *testing.T, h host.Host) (names []string) {
	t.Helper()
	list, err := h.List(t.Context(), `C:\ProgramData\nodejoin\previous`)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, f := range list {
		names = append(names, f.Name)
	}
	return names
}
