package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/collect"
	"nodejoin/steps/doctor"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/generalize"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/selftest"
)

// asked are the calls in the order of a machine's life, each with a request.
func asked() []func() Message {
	specs := []steps.Spec{
		{ID: "d0", Kind: "directory", Args: steps.MustArgs(&kinds.Directory{Path: `C:\d0`})},
		{ID: "f0", Kind: "file", Args: steps.MustArgs(&kinds.File{Path: `C:\d0\f.txt`, Content: "one\n"})},
	}
	req := executor.Request{Node: "n1", Steps: specs, Whole: true}
	fewer := req
	fewer.Steps = specs[:1]
	leave := executor.LeaveRequest{Node: "n1"}
	return []func() Message{
		func() Message { return Check.With(req) },
		func() Message { return Apply.With(req) },
		func() Message { return Check.With(fewer) },
		func() Message { return Remove.With(executor.RemoveRequest{Request: fewer}) },
		func() Message { return Collect.With(collect.CollectRequest{Node: "n1", Steps: specs}) },
		func() Message { return Diagnose.With(doctor.DiagnoseRequest{Node: "n1", Steps: specs}) },
		func() Message { return SelfTest.With(selftest.Request{Areas: []string{"files"}}) },
		func() Message {
			return Generalize.With(generalize.Request{Node: "n1", Steps: []string{"d0", "f0"}})
		},
		func() Message { return CheckLeave.With(leave) },
		func() Message { return Leave.With(leave) },
	}
}

// fieldLies replace a field.
var fieldLies = []any{nil, true, -1, math.MaxInt64, 1e300, "", "x", "a\x1b[2J\u009b\u202e\r\nb",
	strings.Repeat("x", 300_000),
	"../../etc/passwd", `C:\..\..`, "0.0.0.0", []any{}, []any{nil},
	[]any{map[string]any{}},
	slices.Repeat([]any{"x"}, 5000),
	map[string]any{}, map[string]any{"\x1b": "\u202e", "id": "x"}}

// TestEveryFieldLies: if one field of an honest reply is replaced or missing, the reply is either refused, or it
// answers the request and is safe to print.
func TestEveryFieldLies(t *testing.T) {
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	x := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {})
	for n, message := range asked() {
		m := message()
		if err := m.Run(t.Context(), x); err != nil {
			t.Fatalf("%s: %v", m.Method(), err)
		}
		honest, err := json.Marshal(m.Reply())
		if err != nil {
			t.Fatal(err)
		}
		if err := receive(t, message(), honest); err != nil {
			t.Fatalf("%s: an honest reply is refused: %v", m.Method(), err)
		}
		for _, path := range fields(honest) {
			t.Run(fmt.Sprint(n, " ", m.Method(), " ", strings.Join(path, ".")), func(t *testing.T) {
				for _, lie := range fieldLies {
					_ = receive(t, message(), replaced(t, honest, path, func(o map[string]any, k string) { o[k] = lie }))
				}
				_ = receive(t, message(), replaced(t, honest, path, func(o map[string]any, k string) { delete(o, k) }))
			})
		}
	}
}

// receive handles a reply as the controller does. An accepted reply must be clean and answer the request.
func receive(t *testing.T, m Message, reply []byte) error {
	t.Helper()
	b := m.Bound()
	if len(reply) > b.Bytes {
		return ErrOversized
	}
	if err := Holds(reply, b.Values); err != nil {
		return err
	}
	if err := json.Unmarshal(reply, m.Reply()); err != nil {
		return err
	}
	v := m.(interface {
		Clean()
		Verify() error
	})
	v.Clean()
	if err := v.Verify(); err != nil {
		if text := err.Error(); raw.MatchString(text) || len(text) > longestError+3 {
			t.Errorf("the error has %d bytes: %.200q", len(text), text)
		}
		return err
	}
	check(t, m.Method(), reflect.ValueOf(m.Reply()).Elem(), false)
	if r, ok := m.Reply().(*executor.CheckReply); ok && len(r.Results) != len(m.Request().(*executor.Request).Steps) {
		t.Errorf("%d results", len(r.Results))
	}
	return nil
}

// fields are the paths of all fields of a JSON text. Of a list, only the first element counts.
func fields(text []byte) (out [][]string) {
	var v any
	_ = json.Unmarshal(text, &v)
	var walk func(v any, path []string)
	walk = func(v any, path []string) {
		switch v := v.(type) {
		case map[string]any:
			for k, sub := range v {
				at := append(slices.Clone(path), k)
				out = append(out, at)
				walk(sub, at)
			}
		case []any:
			if len(v) > 0 {
				walk(v[0], append(slices.Clone(path), "[0]"))
			}
		}
	}
	walk(v, nil)
	slices.SortFunc(out, slices.Compare)
	return out
}

// replaced is the text with the field at the path replaced.
func replaced(t *testing.T, text []byte, path []string, change func(in map[string]any, name string)) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	at := v
	for _, k := range path[:len(path)-1] {
		if k == "[0]" {
			at = at.([]any)[0]
		} else {
			at = at.(map[string]any)[k]
		}
	}
	change(at.(map[string]any), path[len(path)-1])
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
