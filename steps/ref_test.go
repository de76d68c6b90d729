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
			if err := json.Unmarshal(steps.ResolveArgs(steps.MustArgs(in), values), &have); err != nil {
				t.Fatal(err)
			}
			want := steps.MapStrings(in, func(s string) string { return steps.Resolve(s, values) })
			if d := cmp.Diff(want, have); d != "" {
				t.Error(d)
			}
		})
	}
}
