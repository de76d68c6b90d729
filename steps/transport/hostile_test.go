package transport_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"

	"nodejoin/steps/transport"
)

// object is a JSON object that a lie changes.
type object = map[string]any

// lie is one way in which an agent misbehaves.
type lie struct {
	name string
	on   string // the method whose reply the lie changes; the run goes on until it calls it
	// reply changes or replaces the result of an honest agent.
	reply func(result object) any
	// raw replaces the reply and everything after it.
	raw func(id string, w io.Writer)
	// before is sent ahead of the reply.
	before func(w io.Writer)
	// hello is the hello of an agent with a digest, in place of the honest one; nil = honest.
	hello func(digest string) string
	want  string // part of the machine's error; "" = no error
}

// result replaces the results of the check at index i.
func result(i int, f func(r object)) func(object) any {
	return func(o object) any {
		f(o["results"].([]any)[i].(object))
		return o
	}
}

// field replaces a field of the reply.
func field(name string, value any) func(object) any {
	return func(o object) any { o[name] = value; return o }
}

func fact(name string, value any) func(object) any {
	return func(o object) any { o["facts"].(object)[name] = value; return o }
}

func change(name string, value any) func(object) any {
	return result(0, func(r object) { r["change"].(object)[name] = value })
}

// note is a notification, as a line.
func note(method string, params any) string {
	b, _ := json.Marshal(object{"jsonrpc": "2.0", "method": method, "params": params})
	return string(b) + "\n"
}

func says(events ...object) func(io.Writer) {
	return func(w io.Writer) {
		for _, e := range events {
			_, _ = io.WriteString(w, note("event", e))
		}
	}
}

// line replaces a reply; ID stands for the id of the request.
func line(text string) func(string, io.Writer) {
	return func(id string, w io.Writer) { _, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", id)) }
}

// endless repeats a text after a head until the connection ends or 300 MB are sent.
func endless(head, text string) func(string, io.Writer) {
	return func(id string, w io.Writer) {
		_, _ = io.WriteString(w, strings.ReplaceAll(head, "ID", id))
		block := strings.Repeat(text, 1+(32<<10)/len(text))
		for n := 0; n < 300<<20; n += len(block) {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	}
}

func hang(string, io.Writer) {}

const (
	distrust = "cannot be trusted"
	noAnswer = "does not answer"
	escape   = "\x1b]0;x\a\u009b2J\u202e"
)

func failure(code string) object {
	return object{"code": code, "summary": "no" + escape, "detail": "d" + escape}
}

// lies are grouped by subject.
var lies = slices.Concat(helloLies, lineLies, factLies, checkLies, applyLies, eventLies, otherLies)

var helloLies = []lie{
	{name: "hello without end", hello: func(string) string { return strings.Repeat("x", 1<<20) }, want: "does not start"},
	{name: "hello is not JSON-RPC", hello: func(string) string { return "{\"hello\":1}\n" }, on: "-",
		want: "does not start"},
	{name: "hello has another digest", hello: func(string) string { return note("hello", object{"digest": "00"}) },
		want: "does not start"},
	{name: "hello has a digest that is not text", hello: func(string) string {
		return note("hello", object{"digest": []int{1}})
	}, want: "does not start"},
	{name: "hello has an escape for a digest", hello: func(string) string {
		return note("hello", object{"digest": escape})
	}, want: "does not start"},
	{name: "hello is an event", hello: func(string) string { return note("event", object{}) }, want: "does not start"},
	{name: "hello twice, the second with another digest", hello: func(d string) string {
		return note("hello", object{"digest": d}) + note("hello", object{"digest": "00"})
	}},
	{name: "hello never", hello: func(string) string { return "" }, on: "-", want: "does not start"},
}

var lineLies = []lie{
	{name: "check hangs", on: "check", raw: hang, want: noAnswer},
	{name: "check hangs while events go on", on: "check", raw: func(_ string, w io.Writer) {
		for {
			if _, err := io.WriteString(w,
				note("event", object{"type": "step_progress", "step": "d0", "done": 1})); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}, want: noAnswer},
	{name: "check has millions of results", on: "check", raw: endless(`{"jsonrpc":"2.0","id":ID,"result":{"results":[`,
		`{},`), want: distrust},
	{name: "check is a string without end", on: "check", raw: endless(`{"jsonrpc":"2.0","id":ID,"result":"`, `x`),
		want: distrust},
	{name: "check is deep", on: "check", raw: line(`{"jsonrpc":"2.0","id":ID,"result":` + strings.Repeat("[", 5000) +
		"\n"), want: distrust},
	{name: "check has many small values", on: "check",
		raw:  line(`{"jsonrpc":"2.0","id":ID,"result":{"results":[` + strings.Repeat("{},", 60_000) + "{}]}}\n"),
		want: distrust},
	{name: "check is not JSON", on: "check", raw: line("yes\n"), want: distrust},
	{name: "check is a batch", on: "check", raw: line(`[{"jsonrpc":"2.0","id":ID,"result":{}}]` + "\n"), want: distrust},
	{name: "check has another id", on: "check", raw: line(`{"jsonrpc":"2.0","id":4711,"result":{}}` + "\n"),
		want: noAnswer},
	{name: "check has neither result nor error", on: "check", raw: line(`{"jsonrpc":"2.0","id":ID}` + "\n"),
		want: distrust},
	{name: "check has an error of no form", on: "check",
		raw: line(`{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"\u001b[2J","data":[]}}` + "\n"), want: distrust},
	{name: "check has an error that stops the run", on: "check",
		raw: line(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"x",` +
			`"data":{"code":"locked","summary":"x"}}}` + "\n"), want: distrust},
	{name: "check has an error with escapes", on: "check",
		raw: line(`{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"\u001b","data":` +
			`{"code":"failed","summary":"no\u001b[2J\u009b","detail":"\u202e"}}}` + "\n"), want: `no\x1b[2J\x9b`},
	{name: "check is answered by calls", on: "check",
		raw: endless(``, `{"jsonrpc":"2.0","id":7,"method":"exec","params":{}}`+"\n"), want: distrust},
	{name: "check is answered by events without end", on: "check",
		raw: endless(``, note("event", object{"type": "warning", "summary": "x"})), want: distrust},
	{name: "check is of another type", on: "check", reply: func(object) any { return []int{1} }, want: distrust},
	{name: "check is null", on: "check", reply: func(object) any { return nil }, want: distrust},
	{name: "stderr without end", on: "check", raw: func(id string, w io.Writer) {
		endless("", escape)("", w.(gssh.Session).Stderr())
	}, want: noAnswer},
}

var factLies = []lie{
	{name: "the address is a name", on: "check", reply: fact("management_ip", "api.example.com"), want: distrust},
	{name: "the address has a line more", on: "check", reply: fact("management_ip", "192.0.2.1\nx: y"), want: distrust},
	{name: "the address is every one", on: "check", reply: fact("management_ip", "0.0.0.0"), want: distrust},
	{name: "the name has an escape", on: "check", reply: fact("hostname", "n"+escape), want: distrust},
	{name: "the name has a blank", on: "check", reply: fact("hostname", "a b"), want: distrust},
	{name: "the name is long", on: "check", reply: fact("hostname", strings.Repeat("a", 4000)), want: distrust},
	{name: "the operating system is another one", on: "check", reply: fact("os", "plan9"), want: distrust},
	{name: "the architecture has an escape", on: "check", reply: fact("arch", escape), want: distrust},
	{name: "the folder leads upwards", on: "check", reply: fact("data_dir", "/var/../etc"), want: distrust},
	{name: "the network is none", on: "check", reply: fact("subnet", "10.0.0.0/99"), want: distrust},
	{name: "an IPv6 address is none", on: "check", reply: fact("ipv6", []string{"10.0.0.1"}), want: distrust},
	{name: "processors below zero", on: "check", reply: fact("cpus", -1), want: distrust},
	{name: "the service manager is another one", on: "check", reply: fact("init", "x\ny"), want: distrust},
	{name: "the resolver's file is relative", on: "check", reply: fact("resolv_conf", "../x"), want: distrust},
	{name: "the boot time is not a time", on: "check", reply: fact("boot_time", "yesterday"), want: distrust},
}

var checkLies = []lie{
	{name: "no results", on: "check", reply: field("results", []any{}), want: distrust},
	{name: "one result too many", on: "check", reply: func(o object) any {
		o["results"] = append(o["results"].([]any), object{"id": "d9", "change": object{}})
		return o
	}, want: distrust},
	{name: "a result of a cluster's step", on: "check", reply: result(1, func(r object) { r["id"] = "join_token" }),
		want: distrust},
	{name: "a result twice", on: "check", reply: result(1, func(r object) { r["id"] = "d0" }), want: distrust},
	{name: "an output that the kind has not", on: "check", reply: change("outputs", object{"token": "abc"}),
		want: distrust},
	{name: "an unknown action", on: "check", reply: change("action", escape), want: distrust},
	{name: "a reboot that no step asks for", on: "check", reply: change("reboot", object{"why": []string{"x"}}),
		want: distrust},
	{name: "findings of a folder", on: "check",
		reply: change("findings", []object{{"id": "x", "severity": "error", "observed": "y"}}), want: distrust},
	{name: "a reason with an escape", on: "check", reply: change("reason", "x"+escape)},
	{name: "a difference with an escape", on: "check",
		reply: change("diffs", []object{{"name": "n" + escape, "have": "a" + escape + "\nb", "want": "c\r"}})},
	{name: "an error that ends the run", on: "check",
		reply: result(0, func(r object) { r["err"] = failure("interrupted_by_host") }), want: distrust},
	{name: "an error of the cluster", on: "check",
		reply: result(0, func(r object) { r["err"] = failure("unauthorized") }), want: distrust},
	{name: "an error without words", on: "check",
		reply: result(0, func(r object) { r["err"] = object{"code": "failed"} }), want: distrust},
	{name: "an error without end", on: "check",
		reply: result(0, func(r object) {
			r["err"] = object{"code": "failed", "summary": "no", "detail": strings.Repeat("x", 65<<10)}
		}), want: distrust},
	{name: "an error with escapes", on: "check", reply: result(0, func(r object) { r["err"] = failure("failed") }),
		want: `no\x1b`},
	{name: "changes below zero", on: "check", reply: field("mutations", -1), want: distrust},
	{name: "a last run of an unknown result", on: "check", reply: field("last", object{"result": "x"}), want: distrust},
	{name: "a last run with escapes", on: "check",
		reply: field("last", object{"result": "done", "error": escape, "version": escape,
			"holder": object{"user": escape}})},
	{name: "ran versions with escapes", on: "check", reply: field("ran_versions", object{"d0" + escape: "v" + escape})},
}

var applyLies = []lie{
	{name: "apply hangs", on: "apply", raw: hang, want: noAnswer},
	{name: "a step failed that is none", on: "apply", reply: func(object) any {
		return object{"failed": "no_such_step", "err": failure("failed")}
	}, want: distrust},
	{name: "a step failed without an error", on: "apply", reply: func(object) any { return object{"failed": "d0"} },
		want: distrust},
	{name: "an error of no step", on: "apply", reply: func(object) any { return object{"err": failure("failed")} },
		want: distrust},
	{name: "a later step failed", on: "apply", reply: func(object) any {
		return object{"failed": "d2", "err": failure("failed")}
	}, want: distrust},
	{name: "apply answers nothing", on: "apply", reply: func(object) any { return object{} }, want: distrust},
	{name: "a step is left out", on: "apply", reply: func(o object) any {
		o["changed"] = o["changed"].([]any)[1:]
		return o
	}, want: distrust},
	{name: "a step is done twice", on: "apply", reply: func(o object) any {
		o["unchanged"] = []string{"d0"}
		return o
	}, want: distrust},
	{name: "a step is done that was not sent", on: "apply", reply: func(o object) any {
		o["changed"] = append(o["changed"].([]any), "kubelet")
		return o
	}, want: distrust},
	{name: "a value of the cluster", on: "apply", reply: field("values", object{"cluster.ca": "x"}), want: distrust},
	{name: "a value of another step", on: "apply", reply: field("values", object{"join_token.token": "x"}),
		want: distrust},
	{name: "a value that the step has not", on: "apply", reply: field("values", object{"d0.token": "x"}), want: distrust},
	{name: "a value without a step", on: "apply", reply: field("values", object{"": "x"}), want: distrust},
	{name: "a secret that is not given", on: "apply", reply: field("sensitive", []string{"d0.x"}), want: distrust},
	{name: "a failure that claims an interruption", on: "apply", reply: func(object) any {
		return object{"failed": "d0", "err": failure("interrupted"), "lock": object{}}
	}, want: `no\x1b`},
	{name: "a failure that claims a pending reboot", on: "apply", reply: func(object) any {
		return object{"failed": "d0", "err": failure("reboot")}
	}, want: distrust},
	{name: "a missing artifact again and again", on: "apply", reply: func(object) any {
		return object{"failed": "d0", "err": failure("blob_missing"), "lock": object{}}
	}, want: `no\x1b`},
	{name: "changes of an apply below zero", on: "apply", reply: field("mutations", -7), want: distrust},
	{name: "an apply says nothing of the lock", on: "apply", reply: func(o object) any {
		delete(o, "lock")
		return o
	}, want: distrust},
	{name: "an apply changed a machine that another run holds", on: "apply",
		reply: field("lock", object{"by": object{"run": "x", "user": escape, "host": escape, "command": escape}}),
		want:  distrust},
	{name: "an apply without its steps, again and again", on: "apply", reply: func(object) any {
		return object{"lock": object{"left": object{"run": "x", "user": escape, "host": escape, "command": escape}}}
	}, want: distrust},
	{name: "an apply finds another run again and again", on: "apply", reply: func(object) any {
		return object{"lock": object{"by": object{"run": "x", "user": escape, "host": escape, "command": escape}}}
	}, want: distrust},
	{name: "a failed run is noted as done", on: "apply", reply: func(object) any {
		return object{"failed": "d0", "err": failure("failed"), "lock": object{}, "noted": true}
	}, want: distrust},
	{name: "lock hangs", on: "lock", raw: hang, want: noAnswer},
	{name: "lock is held by an escape", on: "lock", reply: func(object) any {
		return object{"by": object{"run": "x", "user": escape, "host": escape + "\nprod: ok", "command": escape}}
	}, want: "another nodejoin is at work"},
	{name: "lock is of another type", on: "lock", reply: func(object) any { return "yes" }, want: distrust},
}

var eventLies = []lie{
	{name: "events of another host", on: "apply",
		before: says(object{"type": "step_done", "host": "prod-db", "step": "d0", "result": "changed"},
			object{"type": "step_started", "host": "good", "step": "d1", "step_kind": "k" + escape, "title": escape,
				"reason": escape, "action": "create"})},
	{name: "events of another step", on: "apply",
		before: says(object{"type": "step_done", "step": "all steps\nprod-db: ok", "result": "changed"})},
	{name: "events with escapes", on: "apply",
		before: says(object{"type": "step_done", "step": "d0", "result": "failed" + escape},
			object{"type": "step_done", "step": "d0", "action": escape, "result": "changed"},
			object{"type": "step_progress", "step": "d0", "note": escape + "\ngood: ok"},
			object{"type": "warning", "host": escape, "summary": escape + "\nx", "detail": escape})},
	{name: "states of hosts", on: "apply",
		before: says(object{"type": "host_state", "host": "good", "state": "failed" + escape})},
	{name: "events of unknown types", on: "apply", before: says(object{"type": escape}, object{}, object{"type": 7})},
	{name: "events with numbers below zero", on: "apply",
		before: says(object{"type": "step_done", "step": "d0", "result": "changed", "duration": -1},
			object{"type": "step_progress", "step": "d0", "done": -1, "total": -1})},
	{name: "an event that is too long", on: "apply",
		before: says(object{"type": "warning", "summary": strings.Repeat("x", 8<<20)}), want: distrust},
	{name: "a flood of events", on: "apply", before: func(w io.Writer) {
		endless("", note("event", object{"type": "step_progress", "step": "d0", "note": "x"}))("", w)
	}, want: distrust},
}

var otherLies = []lie{
	{name: "remove hangs", on: "remove", raw: hang, want: noAnswer},
	{name: "remove of a thing of no sort", on: "remove", reply: field("removed", []object{{"key": "x:y"}}),
		want: distrust},
	{name: "remove fails without a reason", on: "remove", reply: field("failed", "file:/a"), want: distrust},
	{name: "a removal in a check of a thing of no sort", on: "check",
		reply: field("removals", object{"items": []object{{"key": "x:y"}}}), want: distrust},
	{name: "a removal in a check with an escape", on: "check",
		reply: field("removals", object{"items": []object{{"key": "file:/a" + escape}}, "steps": 1, "of": 2})},
	{name: "a snapshot with escapes", on: "check",
		reply: field("snapshot", object{"begun": "2026-01-02T03:04:05Z", "closed": true, "node": object{"uid": escape},
			"rolled_back": object{"left": []string{escape}}})},
	{name: "leave of things of no sort", on: "leave_check",
		reply: field("items", []object{{"key": "x:y", "change": object{}}}), want: distrust},
	{name: "leave of one thing twice", on: "leave_check",
		reply: field("items", []object{{"key": "file:/a", "change": object{}},
			{"key": "file:/a", "change": object{}}}), want: distrust},
	{name: "leave of a thing that is not a key", on: "leave_check",
		reply: field("items", []object{{"key": "nothing", "change": object{}}}), want: distrust},
	{name: "leave of a thing with an escape", on: "leave_check",
		reply: field("items", []object{{"key": "file:/a" + escape + "\nb", "change": object{}, "left": escape}})},
	{name: "leave_check hangs", on: "leave_check", raw: hang, want: noAnswer},
	{name: "leave fails without a reason", on: "leave", reply: field("failed", "file:/a"), want: distrust},
	{name: "leave hangs", on: "leave", raw: hang, want: noAnswer},
	{name: "forget hangs", on: "forget", raw: hang, want: noAnswer},
	{name: "collect hangs", on: "collect", raw: hang, want: noAnswer},
	{name: "collect has a false fact", on: "collect", reply: fact("os", "x"), want: distrust},
	{name: "collect has names with escapes", on: "collect",
		reply: field("parts", []object{{"name": "../" + escape + "\nx", "text": escape, "missing": escape}})},
	{name: "collect has too many parts", on: "collect", reply: field("parts", make([]object, 300_000)), want: distrust},
	{name: "collect forges what the controller saw", on: "collect",
		reply: field("parts", []object{{"name": "cluster/node.json", "text": "x"}}), want: distrust},
	{name: "diagnose hangs", on: "diagnose", raw: hang, want: noAnswer},
	{name: "diagnose fixes by a step that was not sent", on: "diagnose", reply: func(o object) any {
		o["joined"], o["symptoms"] = true,
			[]object{{"id": "x", "severity": "error", "observed": "y", "fix": []string{"reboot"}}}
		return o
	}, want: distrust},
	{name: "diagnose has an unknown severity", on: "diagnose", reply: func(o object) any {
		o["joined"], o["symptoms"] = true, []object{{"id": "x", "severity": escape, "observed": "y"}}
		return o
	}, want: distrust},
	{name: "diagnose has escapes", on: "diagnose", reply: func(o object) any {
		o["joined"], o["symptoms"] = true,
			[]object{{"id": "x", "severity": "error", "observed": escape, "remedy": escape, "restart": []string{escape}}}
		return o
	}},
	{name: "diagnose has symptoms of a machine that did not join", on: "diagnose",
		reply: field("symptoms", []object{{"id": "x", "severity": "error"}}), want: distrust},
	{name: "a guard with escapes", on: "check", reply: func(o object) any {
		o["guard"] = object{"version": 1, "at": "2026-01-01T00:00:00Z", "tries": object{escape: object{"count": 1}},
			"problems": []object{{"id": escape, "text": escape}}, "fixed": object{"steps": []string{escape}}}
		o["paused"] = object{"by": escape, "reason": escape}
		return o
	}},
	{name: "generalize hangs", on: "generalize", raw: hang, want: noAnswer},
	{name: "generalize has removed something in a check", on: "generalize",
		reply: field("removed", []object{{"path": "/x", "what": "a token"}}), want: distrust},
	{name: "generalize has found an unknown thing", on: "generalize",
		reply: field("left", []object{{"path": "/x", "what": "nothing"}}), want: distrust},
	{name: "generalize has escapes", on: "generalize",
		reply: field("left", []object{{"path": escape, "what": "a token"}})},
	{name: "pause hangs", on: "pause", raw: hang, want: noAnswer},
	{name: "pause without a beginning", on: "pause", reply: field("before", object{"by": "x"}), want: distrust},
	{name: "pause has escapes", on: "pause",
		reply: field("before", object{"by": escape, "since": "2026-01-01T00:00:00Z", "reason": escape})},
	{name: "selftest hangs", on: "selftest", raw: hang, want: noAnswer},
	{name: "selftest names a run", on: "selftest", reply: field("run", "https://x"), want: distrust},
	{name: "selftest has differences of a machine that is as before", on: "selftest",
		reply: field("differs", []string{"x"}), want: distrust},
	{name: "selftest has an unknown outcome", on: "selftest",
		reply: field("results", []object{{"area": "files", "name": "x", "outcome": "fine"}}), want: distrust},
	{name: "selftest has escapes", on: "selftest", reply: func(o object) any {
		o["edition"], o["results"] = escape,
			[]object{{"area": "files", "name": escape, "outcome": "otherwise", "seen": escape}}
		return o
	}},
}

// TestHostileHosts: whatever an agent sends or leaves out, the run ends in time, the machine gets its error, the other
// machine is served as if it were alone, and no text of the agent can move a cursor.
func TestHostileHosts(t *testing.T) {
	for _, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			r := newHostileRun(t, l)
			r.run(ctx)
			if ctx.Err() != nil {
				t.Fatal("the run did not end in time")
			}
			if l.want == "" && r.evil != nil || l.want != "" && (r.evil == nil || !strings.Contains(r.evil.Error(), l.want)) {
				t.Errorf("the lying machine: %v, want %q", r.evil, l.want)
			}
			var dropped *transport.ConnectError
			if errors.Is(r.evil, transport.ErrDropped) && !errors.As(r.evil, &dropped) {
				t.Errorf("it counts as a lost connection: %v", r.evil)
			}
			if n := r.commands; n > 4 {
				t.Errorf("the agent was started %d times", n)
			}
			if r.good != nil {
				t.Errorf("the other machine: %v", r.good)
			}
			r.mustBeClean()
		})
	}
}

func TestLiesAreMany(t *testing.T) {
	if len(lies) < 80 {
		t.Errorf("%d lies", len(lies))
	}
}
