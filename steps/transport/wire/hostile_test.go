package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
)

// fill sets every string that v leads to, and adds one of each part that may be missing.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.String:
		v.SetString(text)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), text)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text)
			}
		}
	}
}

var raw = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f-\x9f\x{202a}-\x{202e}\x{2028}]`)

// TestEveryTextIsCleaned: every string of every reply is cleaned, at any depth. This covers future fields, too.
func TestEveryTextIsCleaned(t *testing.T) {
	const text = "a\x1b[2J\x07\u009b\u202e\r\u2028\nb"
	for _, c := range Calls {
		m := c.Empty()
		fill(reflect.ValueOf(m.Reply()).Elem(), text)
		v := m.(interface{ Clean() })
		v.Clean()
		check(t, m.Method(), reflect.ValueOf(m.Reply()).Elem(), false)
	}
}

func check(t *testing.T, name string, v reflect.Value, lines bool) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		check(t, name, v.Elem(), lines)
	case reflect.String:
		if s := v.String(); raw.MatchString(s) || !lines && strings.Contains(s, "\n") {
			t.Errorf("%s: %q", name, s)
		}
	case reflect.Slice:
		for i := range v.Len() {
			check(t, name, v.Index(i), lines)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			check(t, name, it.Key(), false)
			check(t, name, it.Value(), lines)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				check(t, name+"."+f.Name, v.Field(i), f.Tag.Get("lines") == "true")
			}
		}
	}
}

func TestEveryCallIsBounded(t *testing.T) {
	for _, c := range Calls {
		b := c.Empty().Bound()
		if b.Bytes <= 0 || b.Bytes > perReply || b.Values <= 0 || b.Values > valuesMost || b.Within <= 0 {
			t.Errorf("%s: %+v", c.Empty().Method(), b)
		}
	}
	for _, method := range []string{MethodBlobBegin, MethodBlobPart, MethodBlobFetch, MethodBlobEnd, MethodForget,
		MethodSecure, MethodLock, MethodUnlock, "new"} {
		if b := OfMethod(method, time.Minute); b.Bytes <= 0 || b.Within <= 0 || method == MethodLock &&
			b.Within <= time.Minute {
			t.Errorf("%s: %+v", method, b)
		}
	}
	long := applying([]steps.Spec{{Kind: "feature"}, {Kind: "directory", Timeout: time.Hour}})
	if long.Within < 90*time.Minute || long.Silence < time.Hour {
		t.Errorf("an apply of 90 minutes: %+v", long)
	}
}

// FuzzReply: any reply is either refused, or it answers the request and is safe to print.
func FuzzReply(f *testing.F) {
	specs := []steps.Spec{{ID: "d0", Kind: "directory"}, {ID: "vip", Kind: "source_vip"}}
	for _, seed := range []string{
		`{"facts":{"os":"linux"},"results":[{"id":"d0","change":{}},` +
			`{"id":"vip","change":{"outputs":{"address":"10.0.0.1"}}}]}`,
		`{"changed":["d0"],"failed":"vip","err":{"code":"failed","summary":"x"}}`, `{"values":{"vip.address":"x"}}`,
		`{"facts":{"os":"windows"},"items":[{"key":"file:/a","change":{"action":"delete"}}]}`,
		`{"parts":[{"name":"\u001b"}]}`,
		`{"before":{"given":{"labels":{"a":"\u202e"}}},"failed":"x"}`, `{"symptoms":[{"id":"x"}]}`, `[[[[]]]]`, `null`,
		`{"failed":1}`,
	} {
		for i := range Calls {
			f.Add(uint8(i), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, call uint8, reply []byte) {
		if Holds(reply, 1000) != nil {
			return
		}
		m := Calls[int(call)%len(Calls)].Empty()
		for _, req := range []any{m.Request()} {
			if r, ok := req.(*executor.Request); ok {
				*r = executor.Request{Node: "n1", Steps: specs}
			}
		}
		if json.Unmarshal(reply, m.Reply()) != nil {
			return
		}
		v := m.(interface {
			Clean()
			Verify() error
		})
		v.Clean()
		if err := v.Verify(); err != nil {
			_ = err.Error()
			return
		}
		check(t, m.Method(), reflect.ValueOf(m.Reply()).Elem(), false)
		if r, ok := m.Reply().(*executor.CheckReply); ok && len(r.Results) != len(specs) {
			t.Errorf("%d results", len(r.Results))
		}
		if r, ok := m.Reply().(*executor.ApplyReply); ok && r.Failed != "" && r.Failed != "d0" && r.Failed != "vip" {
			t.Errorf("%q failed", r.Failed)
		}
	})
}

// FuzzEvent: an event that is passed on is about a step of the call, has the call's host, and is safe to print.
func FuzzEvent(f *testing.F) {
	for _, seed := range []string{`{"type":"step_done","host":"x","step":"d0","result":"changed"}`,
		`{"type":"warning","summary":"\u001b"}`,
		`{"type":"step_progress","step":"d0","note":"a\nb"}`,
		`{"type":"step_started","step":"d0","step_kind":"\u001b"}`, `{"type":"host_state","state":"x"}`} {
		f.Add([]byte(seed))
	}
	scope := Scope{Node: "n1", Steps: []steps.Spec{{ID: "d0", Kind: "directory"}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := event.Decode(b)
		if err != nil {
			return
		}
		scope.admit(func(e event.Event) {
			v := reflect.New(reflect.TypeOf(e)).Elem()
			v.Set(reflect.ValueOf(e))
			for i := range v.NumField() {
				if s, ok := v.Field(i).Interface().(string); ok && raw.MatchString(s) {
					t.Errorf("%q", s)
				}
			}
			if h := v.FieldByName("Host").String(); h != "n1" {
				t.Errorf("host %q", h)
			}
			if s := v.FieldByName("Step"); s.IsValid() && s.String() != "d0" {
				t.Errorf("step %q", s)
			}
		})(e)
	})
}

// FuzzChannel: any stream yields messages of bounded length, then an error.
func FuzzChannel(f *testing.F) {
	f.Add([]byte("{}\r\n{\"a\":1}\n"))
	f.Add([]byte("\n\n\r\n"))
	f.Add(bytes.Repeat([]byte("x"), 5000))
	f.Fuzz(func(t *testing.T, stream []byte) {
		c := NewChannel(bytes.NewReader(stream), nil)
		c.Limit = func() int { return 1000 }
		for n := 0; ; n++ {
			b, err := c.Recv()
			if err != nil {
				if errors.Is(err, io.EOF) && n == 0 && len(stream) > 0 {
					t.Error("a stream without messages")
				}
				return
			}
			if len(b) > 1000 || bytes.IndexByte(b, '\n') >= 0 {
				t.Errorf("%d bytes", len(b))
			}
		}
	})
}

// FuzzHolds: JSON that passes exceeds neither the limit on depth nor the limit on values.
func FuzzHolds(f *testing.F) {
	for _, seed := range []string{`{}`, `[1,2,3]`, `"\"[["`, `{"a":[{"b":"{,"}]}`, `"\\"`, strings.Repeat("[", 40)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 50
		if !json.Valid(b) || Holds(b, most) != nil {
			return
		}
		d, level, n := json.NewDecoder(bytes.NewReader(b)), 0, 0
		for {
			tok, err := d.Token()
			if err != nil {
				break
			}
			switch tok {
			case json.Delim('['), json.Delim('{'):
				level++
			case json.Delim(']'), json.Delim('}'):
				level--
			}
			if n++; level > depth || n > 4*most {
				t.Fatalf("%d levels, %d tokens pass", level, n)
			}
		}
	})
}

func TestAdmitBounds(t *testing.T) {
	var n int
	f := Scope{Node: "n1", Steps: []steps.Spec{{ID: "d0", Kind: "directory"}}}.admit(func(event.Event) { n++ })
	for range 10_000 {
		f(event.StepProgress{Step: "d0"})
		f(event.StepStarted{Step: "d0"})
		f(event.Warning{Summary: "x"})
		f(event.HostState{State: "failed"})
	}
	if n < burst || n > 2*burst+perItem+warnings {
		t.Errorf("%d events passed", n)
	}
	if _, ok := kinds.Lookup("directory"); !ok || slices.Contains(codes, steps.CodeLocked) {
		t.Error("the tables have changed")
	}
}

// TestAdmittedDuration: a step takes no longer than its call, whatever a machine says.
func TestAdmittedDuration(t *testing.T) {
	var have []time.Duration
	began := time.Now()
	f := Scope{Node: "n1", Steps: []steps.Spec{{ID: "d0", Kind: "directory"}}}.admit(func(e event.Event) {
		have = append(have, e.(event.StepDone).Duration)
	})
	for _, d := range []time.Duration{1 << 62, 1, -1} {
		f(event.StepDone{Step: "d0", Result: "changed", Duration: d})
	}
	if len(have) != 2 || have[0] > time.Since(began) || have[1] != 1 {
		t.Errorf("%v", have)
	}
}
