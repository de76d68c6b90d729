package executor_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

// The records in ../record/testdata were written by nodejoin 0.1 (record version 1): one of a
// Windows and one of a Linux node that had joined with most kinds of claims, one of an
// upgrade that was killed, and two of upgrades that failed and were undone, before a run
// had seen the machine work again. They are never rewritten.

// fixtureMachine returns a machine that has only this record.
func fixtureMachine(t *testing.T, name string) (host.Host, host.Facts) {
	t.Helper()
	osName := "windows"
	if strings.Contains(name, "linux") {
		osName = "linux"
	}
	h := stepstest.OpenHost(t, osName)
	f, err := h.Facts(t.Context())
	stepstest.Must(t, err)
	b, err := os.ReadFile(filepath.Join("..", "record", "testdata", name))
	stepstest.Must(t, err)
	stepstest.Must(t, h.WriteFile(t.Context(), record.Path(f), bytes.NewReader(b),
		host.WriteOptions{Access: host.AccessPrivate}))
	return h, f
}

func TestRecordLayouts(t *testing.T) {
	windows := map[string]int{"backup": 1, "directory": 22, "dynamic_ports": 1, "env": 4, "feature": 1, "file": 26,
		"firewall_rule": 5, "hns_network": 1,
		"host_name": 1, "made": 12, "registry": 16, "registry_key": 14, "reserved_ports": 1, "service": 5,
		"source_vip": 1, "trusted_ca": 1}
	linux := map[string]int{"backup": 1, "chains": 3, "directory": 16, "env": 6, "env_file": 1, "file": 27,
		"filter_table": 1, "interface": 2, "made": 11,
		"netns": 1, "routes": 1, "service": 5, "sysctl": 3, "trusted_ca": 1}
	for name, want := range map[string]map[string]int{"0.1-windows.json": windows, "0.1-linux.json": linux} {
		h, f := fixtureMachine(t, name)
		rec, err := record.Load(t.Context(), h, f)
		stepstest.Must(t, err)
		have := map[string]int{}
		for key := range rec.Claims {
			have[string(key.Prefix)]++
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s: claims (-want +have):\n%s", name, diff)
		}
		reply, err := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {}).CheckLeave(t.Context(),
			executor.LeaveRequest{Node: "n"})
		stepstest.Must(t, err)
		// nodejoin's own folder and its parents are not among them.
		if n := len(rec.Claims) - len(reply.Items); n < 0 || n > 3 {
			t.Errorf("%s: leave knows %d of %d claims", name, len(reply.Items), len(rec.Claims))
		}
		for _, item := range reply.Items {
			if item.Err != nil {
				t.Errorf("%s: %s: %v", name, item.Key, item.Err)
			}
		}
	}
}

// A change that 0.1 began on a machine is completed by this version.
func TestRecordLayoutSnapshots(t *testing.T) {
	for name, rolledBack := range map[string]bool{"0.1-windows-open.json": false, "0.1-windows-rolled-back.json": true,
		"0.1-linux-rolled-back.json": true} {
		h, _ := fixtureMachine(t, name)
		x := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {})
		check, err := x.Check(t.Context(), executor.Request{Node: "n"})
		stepstest.Must(t, err)
		if s := check.Snapshot; s == nil || s.Begun.IsZero() || s.Closed != rolledBack ||
			(s.RolledBack != nil) != rolledBack {
			t.Errorf("%s: a check reports %+v", name, s)
		}
		reply, err := x.Rollback(t.Context(), executor.RollbackRequest{Node: "n"})
		if rolledBack {
			want := []string{"kubelet", "kube-proxy"}
			if err != nil || reply.Before == nil || !reply.Before.Ready || reply.Before.Version != "1.36.3" ||
				reply.Before.UID == "" || len(reply.Before.Given.Labels) < 3 || !cmp.Equal(reply.Services, want) {
				t.Errorf("%s: %+v, %v", name, reply, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "previous") {
			t.Errorf("%s: its files in previous are not there: %v", name, err)
		}
		stepstest.Must(t, x.Verified(t.Context()))
		if check, err = x.Check(t.Context(), executor.Request{Node: "n"}); err != nil || check.Snapshot != nil {
			t.Errorf("%s: once it is verified, a check reports %+v, %v", name, check.Snapshot, err)
		}
	}
}

// A record that was there before nodejoin is not read, and nothing is undone because of it.
func TestForgedRecord(t *testing.T) {
	for _, osName := range []string{"windows", "linux"} {
		h := stepstest.OpenHost(t, osName)
		f, err := h.Facts(t.Context())
		stepstest.Must(t, err)
		forged := []byte(`{"version":2,"claims":{"file:C:\\Windows\\System32\\x.dll":{"step":"x","existed":true}}}`)
		stepstest.Must(t, h.WriteFile(t.Context(), record.Path(f), bytes.NewReader(forged), host.WriteOptions{}))
		x := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {})
		_, checkErr := x.Check(t.Context(), executor.Request{Node: "n"})
		_, leaveErr := x.Leave(t.Context(), executor.LeaveRequest{Node: "n"})
		for _, err := range []error{checkErr, leaveErr} {
			if !errors.Is(err, host.ErrForeign) || !strings.Contains(steps.AsError(err).Remedy, "rename or remove it") {
				t.Errorf("%s: %v", osName, err)
			}
		}
		if x.Mutations() != 0 {
			t.Errorf("%s: %d changes", osName, x.Mutations())
		}
	}
}

// TestForeignLinkToTheDataFolder: if a link or a junction is in place of nodejoin's folder, nothing below its target
// is used or changed.
func TestForeignLinkToTheDataFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a link needs a privilege; steps/host/windows has the test with junctions")
	}
	for _, osName := range []string{"windows", "linux"} {
		dir := t.TempDir()
		h, err := sandbox.Open(t.Context(), sandbox.Config{Path: filepath.Join(dir, "machine"), OS: osName})
		stepstest.Must(t, err)
		f, err := h.Facts(t.Context())
		stepstest.Must(t, err)
		target := filepath.Join(dir, "machine", "theirs")
		stepstest.Must(t, os.Mkdir(target, 0o755))
		forged := []byte(`{"version":2,"claims":{"file:/etc/shadow":{"step":"x","existed":true}}}`)
		stepstest.Must(t, os.WriteFile(filepath.Join(target, "record.json"), forged, 0o644))
		folder := filepath.Join(dir, "machine", "var", "lib", "nodejoin")
		if osName == "windows" {
			folder = filepath.Join(dir, "machine", "C", "ProgramData", "nodejoin")
		}
		stepstest.Must(t, os.RemoveAll(folder))
		stepstest.Must(t, os.MkdirAll(filepath.Dir(folder), 0o755))
		stepstest.Must(t, os.Symlink(target, folder))
		x := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {})
		_, checkErr := x.Check(t.Context(), executor.Request{Node: "n"})
		_, leaveErr := x.Leave(t.Context(), executor.LeaveRequest{Node: "n"})
		for _, err := range []error{checkErr, leaveErr, h.SetAccess(t.Context(), f.DataDir, host.AccessPrivate)} {
			if !errors.Is(err, host.ErrForeign) {
				t.Errorf("%s: %v", osName, err)
			}
		}
		list, err := os.ReadDir(target)
		if err != nil || len(list) != 1 || x.Mutations() != 0 {
			t.Errorf("%s: %v, %v, %d changes", osName, list, err, x.Mutations())
		}
	}
}
