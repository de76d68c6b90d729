package transport

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/collect"
	"nodejoin/steps/doctor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport/wire"
)

// Two connections to one machine: only one run holds its lock, and a connection that
// is lost without notice releases it.
func TestLockOverSSH(t *testing.T) {
	m := newMachine(t)
	one, two := m.dial(t, m.config(m.addr)), m.dial(t, m.config(m.addr))
	holder := func(run string) steps.LockHolder {
		return steps.LockHolder{Run: run, User: "alice", Host: "ctl", PID: 7, Since: time.Unix(1e9, 0).UTC(),
			Command: "apply"}
	}
	if r, err := one.Lock(t.Context(), steps.LockRequest{Holder: holder("1")}); err != nil || r != (steps.LockReply{}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if reply, err := Do(t.Context(), one, wire.Apply, directories(t.TempDir(), 2), nil); err != nil ||
		reply.Err != nil || len(reply.Changed) != 2 {
		t.Fatalf("the holder's own apply: %+v, %v", reply, err)
	}
	second, err := two.Lock(t.Context(), steps.LockRequest{Holder: holder("2")})
	if err != nil || second.By == nil || *second.By != holder("1") {
		t.Fatalf("the second: %+v, %v", second, err)
	}
	if have := steps.Locked("the machine n1", *second.By).Error(); !strings.Contains(have,
		"apply by alice on ctl (process 7), since 2001-09-09T01:46:40Z") {
		t.Error(have)
	}

	// A released lock is free at once and leaves nothing behind.
	if err := one.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := two.Lock(t.Context(), steps.LockRequest{Holder: holder("2")}); err != nil || r != (steps.LockReply{}) {
		t.Fatalf("when it is free: %+v, %v", r, err)
	}
	// After a lost connection the lock is free once the agent notices; the next run learns who held it.
	two.(*sshConn).way.close()
	r, err := one.Lock(t.Context(), steps.LockRequest{Holder: holder("3"), Wait: 20 * time.Second})
	if err != nil || r.By != nil || r.Left == nil || *r.Left != holder("2") {
		t.Fatalf("after the loss: %+v, %v", r, err)
	}
	if err := one.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The parts of a bug report come over the wire: only the end of each log, and without
// the secrets that the steps name.
func TestCollectOverSSH(t *testing.T) {
	m := newMachine(t)
	dir := t.TempDir()
	log, conf := filepath.Join(dir, "x.log"), filepath.Join(dir, "x.conf")
	if err := os.WriteFile(log, []byte(strings.Repeat("an old line\n", 50_000)+"the last line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, []byte("a: hush-hush\npassword: other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reply, err := Do(t.Context(), m.dial(t, m.config(m.addr)), wire.Collect,
		collect.CollectRequest{Node: "n1", Steps: []steps.Spec{
			{ID: "c", Kind: "file", Args: steps.MustArgs(&kinds.File{Path: conf})},
			{ID: "k", Kind: "kubeconfig",
				Args: steps.MustArgs(&kinds.Kubeconfig{Path: filepath.Join(dir, "none"), Token: "hush-hush"})},
			{ID: "r", Kind: "file_ready", Args: steps.MustArgs(&kinds.FileReady{Path: log})},
		}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]collect.Part{}
	for _, p := range reply.Parts {
		parts[p.Name] = p
	}
	name := func(path string) string { return "files/" + strings.TrimPrefix(path, "/") }
	if p := parts[name(log)]; !p.Cut || !strings.HasPrefix(p.Text, "an old line\n") ||
		!strings.HasSuffix(p.Text, "the last line\n") || len(p.Text) > 64<<10 {
		t.Errorf("the log: %d bytes, cut %v, %q", len(p.Text), p.Cut, p.Missing)
	}
	if p := parts[name(conf)]; p.Text != "a: (sensitive)\npassword: \"(sensitive)\"\n" {
		t.Errorf("the configuration: %+v", p)
	}
	if p := parts["network/ports.json"]; p.Missing == "" || parts["network/adapters.json"].Missing != "" {
		t.Errorf("a part that the machine cannot collect: %+v", p)
	}
	if p := parts[name(filepath.Join(dir, "none"))]; p.Missing != "it is not there" {
		t.Errorf("a file that is not there: %+v", p)
	}
}

// A joined machine is diagnosed over the wire, too.
func TestDiagnoseOverSSH(t *testing.T) {
	m := newMachine(t)
	kubelet := steps.Spec{ID: "kubelet", Kind: "service",
		Args: steps.MustArgs(&kinds.Service{ServiceConfig: host.ServiceConfig{Name: "nodejoin-no-such-service",
			Command: []string{"/x"}}})}
	reply, err := Do(t.Context(), m.dial(t, m.config(m.addr)), wire.Diagnose,
		doctor.DiagnoseRequest{Node: "n1", Steps: []steps.Spec{kubelet}}, nil)
	if err != nil || reply.Joined || len(reply.Symptoms) != 0 || reply.Facts.OS == "" {
		t.Errorf("a machine that has not joined: %+v, %v", reply, err)
	}
}
