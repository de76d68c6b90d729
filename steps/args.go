package steps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Args are the arguments of a step as JSON. Their strings may hold references (Ref). They are immutable, so that
// the steps of thousands of nodes share them. The zero value is null.
type Args struct{ text *argsText }

type argsText struct {
	json   json.RawMessage
	values map[string]string // of references in json, filled whenever it is read
}

// MustArgs encodes an argument struct as a Spec carries it.
func MustArgs(v any) Args {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("steps: arguments %s: %v", reflect.TypeOf(v), err))
	}
	return RawArgs(b)
}

// RawArgs are the arguments in b, which is JSON as MustArgs writes it, and must not be changed any more.
func RawArgs(b json.RawMessage) Args {
	if b == nil {
		return Args{}
	}
	return Args{&argsText{json: b}}
}

// JSON is the text of the arguments, which must not be changed; nil if there are none.
func (a Args) JSON() json.RawMessage {
	if a.text == nil {
		return nil
	}
	return resolve(a.text.json, a.text.values)
}

// With returns the arguments with the references filled that values knows. This happens whenever they are read: the
// result shares its text with a. values must not be changed any more.
func (a Args) With(values map[string]string) Args {
	if a.text == nil || len(values) == 0 {
		return a
	}
	if a.text.values != nil {
		a = RawArgs(a.JSON())
	}
	return Args{&argsText{a.text.json, values}}
}

// Equal reports whether both have the same text.
func (a Args) Equal(b Args) bool { return a.text == b.text || bytes.Equal(a.JSON(), b.JSON()) }

// MarshalJSON writes the text.
func (a Args) MarshalJSON() ([]byte, error) { return a.JSON().MarshalJSON() }

// UnmarshalJSON takes any JSON.
func (a *Args) UnmarshalJSON(b []byte) error {
	*a = RawArgs(bytes.Clone(b))
	return nil
}

// ArgRefs names the references in all strings of a step's arguments.
func ArgRefs(args Args) []string {
	var v any
	if json.Unmarshal(args.JSON(), &v) != nil {
		return nil
	}
	var out []string
	MapStrings(v, func(s string) string {
		for _, r := range Refs(s) {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
		return s
	})
	slices.Sort(out)
	return out
}

// ResolveArgs fills the references in all strings of args that values knows.
func ResolveArgs(args Args, values map[string]string) Args {
	before := args.JSON()
	if after := resolve(before, values); len(before) == 0 || &after[0] != &before[0] {
		return RawArgs(after)
	}
	return args
}

// argNUL is a NUL in a string of JSON.
var argNUL = []byte(`\u0000`)

// resolve fills the references in all strings of args, which are JSON as MustArgs writes it. Without any, it returns
// args itself.
func resolve(args json.RawMessage, values map[string]string) json.RawMessage {
	if len(values) == 0 || !bytes.Contains(args, argNUL) {
		return args
	}
	out := make(json.RawMessage, 0, len(args)+64)
	done := 0 // of args, which is in out
	for at := 0; ; {
		next := bytes.Index(args[at:], argNUL)
		if next < 0 {
			return append(out, args[done:]...)
		}
		begin := at + next
		at = begin + len(argNUL)
		if escaped(args[:begin]) {
			continue
		}
		end := endOfRef(args, at)
		if end < 0 {
			continue
		}
		if v, ok := values[string(args[at:end])]; ok {
			quoted, _ := json.Marshal(v) // a string can always be encoded
			out = append(append(out, args[done:begin]...), quoted[1:len(quoted)-1]...)
			done = end + len(argNUL)
		}
		at = end + len(argNUL)
	}
}

// escaped reports whether a backslash after text is escaped by one of its own.
func escaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}

// endOfRef is the place of the NUL that ends a reference whose name begins at place at; -1 = its string ends first.
func endOfRef(args []byte, at int) int {
	for at < len(args) && args[at] != '"' {
		switch {
		case args[at] != '\\':
			at++
		case bytes.HasPrefix(args[at:], argNUL):
			return at
		default:
			at += 2
		}
	}
	return -1
}
