package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/generalize"
	"nodejoin/steps/kinds"
	"nodejoin/steps/selftest"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/agent"
	"nodejoin/steps/transport/wire"
)

// hostileRun is a run on a machine that lies and an honest one.
type hostileRun struct {
	t    *testing.T
	lie  lie
	dir  string
	dial func(context.Context) (transport.Conn, error)

	mu         sync.Mutex
	commands   int
	events     []event.Event
	seen       []any
	evil, good error
}

func newHostileRun(t *testing.T, l lie) *hostileRun {
	r := &hostileRun{t: t, lie: l, dir: t.TempDir()}
	r.dial = transport.Hostile(t, r.serve, func(method string, b wire.Bound) wire.Bound {
		// An honest machine needs less; the flood and the endless replies need this time.
		if l.want == noAnswer && method == l.on || l.on == "-" && method == "hello" {
			b.Within = 300 * time.Millisecond
		}
		return b
	})
	return r
}

// serve is the agent that lies: an honest one whose output passes through a filter.
func (r *hostileRun) serve(s gssh.Session, digest string) {
	r.mu.Lock()
	r.commands++
	r.mu.Unlock()
	hello := wire.Hello{Protocol: wire.Protocol, OS: "linux", Arch: "amd64", Digest: digest}
	f := &filter{Session: s, lie: r.lie, methods: map[string]string{}}
	if r.lie.hello != nil {
		_, _ = io.WriteString(s, r.lie.hello(digest))
		f.mute = true
	}
	h, a := transport.FileHost(filepath.Join(r.dir, "data"))
	_ = agent.Serve(s.Context(), f.requests(), f,
		agent.Options{Host: h, Artifacts: a, DataDir: filepath.Join(r.dir, "data"), Hello: hello})
	_ = s.Exit(0)
}

// filter changes the output of an honest agent.
type filter struct {
	gssh.Session
	lie     lie
	mute    bool // the hello was sent
	mu      sync.Mutex
	methods map[string]string // by the id of the request
	silent  bool
	buf     bytes.Buffer
}

// requests records the methods of the controller's requests.
func (f *filter) requests() io.Reader {
	pr, pw := io.Pipe()
	go func() {
		ch := wire.NewChannel(f.Session, f.Session)
		for {
			b, err := ch.Recv()
			if err != nil {
				_ = pw.CloseWithError(err)
				return
			}
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			_ = json.Unmarshal(b, &m)
			f.mu.Lock()
			f.methods[string(m.ID)] = m.Method
			f.mu.Unlock()
			if _, err := pw.Write(append(b, '\n')); err != nil {
				return
			}
		}
	}()
	return pr
}

func (f *filter) Close() error { return f.Session.Close() }

func (f *filter) Write(b []byte) (int, error) {
	f.buf.Write(b)
	for {
		i := bytes.IndexByte(f.buf.Bytes(), '\n')
		if i < 0 {
			return len(b), nil
		}
		line := bytes.Clone(f.buf.Next(i + 1))
		if err := f.say(line); err != nil {
			return 0, err
		}
	}
}

func (f *filter) say(line []byte) error {
	var m object
	if json.Unmarshal(line, &m) != nil {
		return errors.New("no message")
	}
	id, _ := json.Marshal(m["id"])
	f.mu.Lock()
	method := f.methods[string(id)]
	f.mu.Unlock()
	switch {
	case f.silent || m["method"] == "hello" && f.mute:
		return nil
	case m["id"] == nil || method != f.lie.on:
	case f.lie.raw != nil:
		f.silent = true
		go f.lie.raw(string(id), f.Session)
		return nil
	default:
		if f.lie.before != nil {
			f.lie.before(f.Session)
		}
		if f.lie.reply != nil && m["result"] != nil {
			m["result"] = f.lie.reply(m["result"].(object))
			line, _ = json.Marshal(m)
			line = append(line, '\n')
		}
	}
	_, err := f.Session.Write(line)
	return err
}

func (r *hostileRun) session(ctx context.Context) *engine.Session {
	nodes := []plan.Node{}
	for _, name := range []string{"evil", "good"} {
		n := plan.Node{Name: name, OS: "linux"}
		for _, id := range []string{"d0", "d1", "d2"} {
			n.Steps = append(n.Steps,
				steps.Spec{ID: id, Kind: "directory",
					Args: steps.MustArgs(&kinds.Directory{Path: filepath.Join(r.dir, name, id)})})
		}
		nodes = append(nodes, n)
	}
	s := engine.New(&plan.Compiled{Nodes: nodes}, engine.Options{
		Holder: steps.LockHolder{Run: "r", User: "alice", Host: "ctl", PID: os.Getpid(), Command: "apply"},
		Emit:   func(e event.Event) { r.events = append(r.events, e) },
		Connect: func(ctx context.Context, n plan.Node) (transport.Conn, error) {
			if n.Name == "evil" {
				return r.dial(ctx)
			}
			h, a := transport.FileHost(filepath.Join(r.dir, "good-data"))
			return transport.NewLocal(h, a, filepath.Join(r.dir, "lock")), nil
		},
	})
	r.t.Cleanup(s.Close)
	return s
}

// run goes on until it meets the lie.
func (r *hostileRun) run(ctx context.Context) {
	for _, dir := range []string{"lock", "evil-lock", "good-data", "data", "good", "evil"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o700); err != nil {
			r.t.Fatal(err)
		}
	}
	if r.lie.on == "remove" { // the plan may have left something only where it has changed the machine before
		hidden := r.lie
		r.lie = lie{}
		before := r.session(ctx)
		before.Check(ctx)
		before.Apply(ctx)
		before.Close()
		r.lie = hidden
		for _, name := range []string{"good", "evil"} {
			for _, id := range []string{"d0", "d1", "d2"} {
				if err := os.Remove(filepath.Join(r.dir, name, id)); err != nil {
					r.t.Fatal(err)
				}
			}
		}
	}
	s := r.session(ctx)
	note := func(host int, err error) {
		if to := []*error{&r.evil, &r.good}[host]; *to == nil {
			*to = err
		}
	}
	switch r.lie.on {
	case "leave_check", "leave", "forget", "lock": // an apply takes the lock in its own call
		o := engine.LeaveOptions{WithoutCluster: true}
		s.Check(ctx)
		s.Apply(ctx)
		report := s.CheckLeave(ctx, o)
		sum := s.Leave(ctx, report, o)
		for i, h := range sum.Hosts {
			note(i, h.Err)
		}
		r.seen = append(r.seen, report, sum)
	case "collect":
		s.Check(ctx)
		out := s.Collect(ctx)
		for i, h := range out {
			note(i, h.Err)
		}
		r.seen = append(r.seen, out)
	case "selftest":
		out := s.SelfTest(ctx, selftest.Request{Areas: []string{"files"}})
		for i, h := range out {
			note(i, h.Err)
		}
		r.seen = append(r.seen, out)
	case "generalize":
		s.Check(ctx)
		s.Apply(ctx)
		// Only a check: these machines have the files of this one.
		out := s.Generalize(ctx, func(n plan.Node) generalize.Request {
			return generalize.Request{Node: n.Name, Steps: []string{"d0", "d1", "d2"}, Check: true}
		})
		for i, h := range out {
			note(i, h.Err)
		}
		r.seen = append(r.seen, out)
	case "pause":
		out := s.Pause(ctx, nil)
		for i, h := range out {
			note(i, h.Err)
		}
		r.seen = append(r.seen, out)
	case "diagnose":
		out := s.Diagnose(ctx)
		for i, h := range out {
			note(i, h.Err)
		}
		r.seen = append(r.seen, out)
	default:
		report := s.Check(ctx)
		sum := s.Apply(ctx)
		for i, h := range report.Hosts {
			note(i, h.Err)
		}
		for i, h := range sum.Hosts {
			note(i, h.Err)
		}
		if n := len(sum.Hosts[1].Changed); n != 3 {
			r.t.Errorf("the other machine had %d changes", n)
		}
		r.seen = append(r.seen, report, sum)
	}
}

// rawText matches what a terminal would obey, in its JSON form.
var rawText = regexp.MustCompile(`\\u00(0[0-8b-f]|1[0-9a-f]|7f|8[0-9a-f]|9[0-9a-f])|[\x{80}-\x{9f}\x{202a}-\x{202e}]`)

// mustBeClean checks that the output of the run follows the rules for text, and that events have the right host.
func (r *hostileRun) mustBeClean() {
	r.t.Helper()
	for _, v := range append([]any{r.events}, r.seen...) {
		b, err := json.Marshal(v)
		if err != nil {
			r.t.Fatal(err)
		}
		if m := rawText.FindIndex(b); m != nil {
			r.t.Errorf("raw text: %q", b[max(0, m[0]-60):min(len(b), m[1]+60)])
		}
	}
	for _, err := range []error{r.evil, r.good} {
		if err == nil {
			continue
		}
		if b, _ := json.Marshal(err.Error()); rawText.Match(b) {
			r.t.Errorf("raw text in the error %q", err)
		}
	}
	for _, e := range r.events {
		b, _ := json.Marshal(e)
		var m struct{ Host, Step, State string }
		_ = json.Unmarshal(b, &m)
		if m.Host != "evil" && m.Host != "good" || strings.ContainsAny(m.Step, "\n\x1b") {
			r.t.Errorf("an event of %q: %s", m.Host, b)
		}
		if d, ok := e.(event.StepDone); ok && d.Host == "good" && r.good != nil {
			r.t.Errorf("a forged event: %s", b)
		}
	}
}
