package steps_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
)

// TestResolveArgs: known references are filled wherever they stand in a string, whatever their values and the text
// around them are.
func TestResolveArgs(t *testing.T) {
	values := map[string]string{"fact.a": `C:\u0000 "x"` + "\n<é\x01", "s.b": "", "\\": "never"}
	for name, text := range map[string]string{
		"nothing":          "plain",
		"whole":            steps.Ref("fact.a"),
		"several":          "-" + steps.Ref("fact.a") + "," + steps.Ref("s.b") + "," + steps.Ref("fact.a") + "-",
		"unknown":          steps.Ref("fact.a") + steps.Ref("later.c") + steps.Ref("fact.a"),
		"not a reference":  `\u0000fact.a\u0000`,
		"after backslash":  `\` + steps.Ref("fact.a"),
		"after backslashs": `\\` + steps.Ref("fact.a") + `\"`,
		"one NUL":          "a\x00b",
		"three NULs":       "\x00fact.a\x00fact.a\x00",
	} {
		t.Run(name, func(t *testing.T) {
			in := map[string]any{"text": text, "list": []any{text, "\x00", text},
				"in": map[string]any{"n": 1.0, "t": text}}
			var have any
			if err := json.Unmarshal(steps.ResolveArgs(steps.MustArgs(in), values).JSON(), &have); err != nil {
				t.Fatal(err)
			}
			want := steps.MapStrings(in, func(s string) string { return steps.Resolve(s, values) })
			if d := cmp.Diff(want, have); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestArgsWith: references that are filled when the arguments are read stand in their JSON as those filled at once,
// also within a spec, and the arguments that they come from keep theirs.
func TestArgsWith(t *testing.T) {
	args := steps.MustArgs(map[string]string{"text": "a" + steps.Ref("node.name") + steps.Ref("fact.a"),
		"plain": `\u0000 "`})
	later := args.With(map[string]string{"node.name": "win-1"})
	both := later.With(map[string]string{"fact.a": "x"})
	for name, c := range map[string]struct {
		have steps.Args
		want string
	}{
		"before": {args, `{"plain":"\\u0000 \"","text":"a\u0000node.name\u0000\u0000fact.a\u0000"}`},
		"one":    {later, `{"plain":"\\u0000 \"","text":"awin-1\u0000fact.a\u0000"}`},
		"both":   {both, `{"plain":"\\u0000 \"","text":"awin-1x"}`},
		"none":   {steps.Args{}.With(map[string]string{"a": "b"}), "null"},
	} {
		in := steps.Spec{ID: "s", Args: c.have}
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"id":"s","kind":"","args":` + c.want + `}`; string(text) != want {
			t.Errorf("%s: %s\nwant %s", name, text, want)
		}
		var out steps.Spec
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(in, out); name != "none" && d != "" {
			t.Errorf("%s: another spec after JSON: %s", name, d)
		}
	}
	if want := []string{"fact.a"}; !cmp.Equal(steps.ArgRefs(later), want) {
		t.Errorf("references %v, want %v", steps.ArgRefs(later), want)
	}
	if later.Equal(args) || !later.Equal(steps.ResolveArgs(args, map[string]string{"node.name": "win-1"})) {
		t.Error("Equal does not compare the texts")
	}
}
