package transport_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// away is the error of a machine that a run must not connect to again.
var away = &transport.ConnectError{Reason: transport.ReasonAuth, Summary: "not now"}

// joined is a machine with two folders and a file that nodejoin made, and a foreign file.
type joined struct {
	*transport.TestMachine
	t    *testing.T
	dir  string // of what nodejoin made
	shut bool   // no connection succeeds
	hear func(event.Event)
}

func newJoined(t *testing.T) *joined {
	j := &joined{TestMachine: transport.NewTestMachine(t), t: t, hear: func(event.Event) {}}
	j.dir = filepath.Join(j.Home(), "made")
	if err := os.WriteFile(filepath.Join(j.Home(), "theirs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := j.session()
	s.Check(t.Context())
	if h := s.Apply(t.Context()).Hosts[0]; h.Err != nil || len(h.Changed) != 3 {
		t.Fatalf("the join: %+v", h)
	}
	return j
}

func (j *joined) session() *engine.Session {
	spec := func(id, kind string, args any) steps.Spec {
		return steps.Spec{ID: id, Kind: kind, Args: steps.MustArgs(args)}
	}
	p := &plan.Compiled{Nodes: []plan.Node{{Name: "n1", OS: "linux", Steps: []steps.Spec{
		spec("outer", "directory", &kinds.Directory{Path: j.dir}),
		spec("inner", "directory", &kinds.Directory{Path: filepath.Join(j.dir, "inner")}),
		spec("text", "file", &kinds.File{Path: filepath.Join(j.dir, "inner", "a.txt"), Content: "a",
			Access: host.AccessPrivate}),
	}}}}
	s := engine.New(p, engine.Options{
		Holder: steps.LockHolder{Run: "r", User: "alice", Host: "ctl", PID: os.Getpid(), Command: "leave"},
		Emit:   func(e event.Event) { j.hear(e) },
		Connect: func(ctx context.Context, _ plan.Node) (transport.Conn, error) {
			if j.shut {
				return nil, away
			}
			return j.Dial(ctx)
		},
	})
	j.t.Cleanup(s.Close)
	return s
}

func (j *joined) leave() engine.LeaveResult {
	j.t.Helper()
	o := engine.LeaveOptions{WithoutCluster: true}
	s := j.session()
	r := s.CheckLeave(j.t.Context(), o)
	if err := r.Hosts[0].Err; err != nil {
		j.t.Fatal(err)
	}
	return s.Leave(j.t.Context(), r, o).Hosts[0]
}

// names are the files of the user that logs in.
func (j *joined) names() (out []string) {
	j.t.Helper()
	list, err := os.ReadDir(j.Home())
	if err != nil {
		j.t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func (j *joined) mustBeGone() {
	j.t.Helper()
	if have := j.names(); !slices.Equal(have, []string{"theirs"}) {
		j.t.Errorf("files after the leave: %q", have)
	}
}

// A node leaves over SSH: the leave removes what nodejoin made, then nodejoin's folder, then
// the agent itself. A second leave finds nothing and leaves nothing.
func TestLeaveOverSSH(t *testing.T) {
	j := newJoined(t)
	agents, err := j.Agents()
	if err != nil {
		t.Fatal(err)
	}
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }
	var order []string
	j.hear = func(e event.Event) {
		if d, ok := e.(event.StepDone); ok {
			order = append(order, d.Step)
		}
		if s, ok := e.(event.StepStarted); ok && s.Step == "own_folder" && (there(j.dir) || !there(j.Data()) ||
			!there(agents)) {
			t.Errorf("at the removal of nodejoin's folder: its work exists %v, the folder %v, the agent %v", there(j.dir),
				there(j.Data()), there(agents))
		}
	}
	if l := j.leave(); l.Err != nil || len(l.Files) > 0 || l.Mutations == 0 {
		t.Fatalf("%+v", l)
	}
	want := []string{"file:" + filepath.Join(j.dir, "inner", "a.txt"), "directory:" + filepath.Join(j.dir, "inner"),
		"directory:" + j.dir, "own_folder"}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
	j.mustBeGone()
	if l := j.leave(); l.Err != nil || l.Mutations != 0 {
		t.Errorf("the second leave: %+v", l)
	}
	j.mustBeGone()
}

// A leave removes what interrupted pushes of the agent left in its folder, however young it is.
func TestLeaveAfterInterruptedPushes(t *testing.T) {
	j := newJoined(t)
	agents, err := j.Agents()
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(agents, wire.AgentPrefix+"0123456789abcdef.6y7khioz"+wire.Leftover)
	packed := left + ".d" + wire.Leftover
	if err := errors.Join(os.WriteFile(left, []byte("half"), 0o600), os.Mkdir(packed, 0o700),
		os.WriteFile(filepath.Join(packed, "agent.tgz"), []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if l := j.leave(); l.Err != nil {
		t.Fatal(l.Failed, l.Err)
	}
	j.mustBeGone()
}

// The connection is cut at every stage of a leave. If the machine is back at once, the same
// leave completes; otherwise the next one does.
func TestLeaveOverSSHCut(t *testing.T) {
	for _, at := range []string{"inner", "made", "own_folder"} {
		for name, shut := range map[string]bool{"back at once": false, "away": true} {
			t.Run(at+", "+name, func(t *testing.T) {
				j := newJoined(t)
				cut := false
				j.hear = func(e event.Event) {
					if s, ok := e.(event.StepStarted); ok && filepath.Base(s.Step) == at && !cut {
						cut, j.shut = true, shut
						j.Cut()
					}
				}
				l := j.leave()
				if !cut {
					t.Fatal("the connection was not cut")
				}
				if shut {
					if l.Err == nil {
						t.Fatal("the leave completed without a connection")
					}
					j.shut = false
					l = j.leave()
				}
				if l.Err != nil {
					t.Fatal(l.Failed, l.Err)
				}
				j.mustBeGone()
			})
		}
	}
}
