package recipe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

type object = map[string]any

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct{ base, own, want object }{
		"nothing":    {nil, nil, nil},
		"base alone": {object{"a": 1}, nil, object{"a": 1}},
		"own alone":  {nil, object{"a": nil}, object{"a": nil}},
		"deep": {object{"a": object{"b": 1, "c": 2}}, object{"a": object{"c": 3}},
			object{"a": object{"b": 1, "c": 3}}},
		"lists are replaced": {object{"a": []any{1, 2}}, object{"a": []any{3}}, object{"a": []any{3}}},
		"null stays":         {object{"a": 1, "b": 1}, object{"a": nil}, object{"a": nil, "b": 1}},
		"object for scalar":  {object{"a": 1}, object{"a": object{"b": 1}}, object{"a": object{"b": 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, Merge(c.base, c.own)); d != "" {
				t.Errorf("(-want +have)\n%s", d)
			}
		})
	}
	base := object{"a": object{"b": 1}}
	Merge(base, object{"a": object{"b": 2}})
	if d := cmp.Diff(object{"a": object{"b": 1}}, base); d != "" {
		t.Errorf("an argument was changed:\n%s", d)
	}
	own := object{"a": object{"b": nil, "c": 1}, "d": nil}
	if d := cmp.Diff(object{"a": object{"c": 1}}, prune(own)); d != "" {
		t.Errorf("prune (-want +have)\n%s", d)
	}
}
