package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAsk: answers of several runs are in one file, with the machine that the first saw.
func TestAsk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "evidence")
	all := map[string]probe{"a": func(context.Context) []answer {
		return []answer{{name: "yes", expected: true, seen: "1"}, {name: "no", seen: "2"},
			{name: "dumb", err: errors.New("3")}}
	}}
	e := evidence{Build: "20348.1", Language: "ko-KR", Edition: "ServerStandard", Commit: "c"}
	for _, prefix := range []string{"", "ssh "} {
		if err := ask(t.Context(), dir, e, prefix, all, []string{"a"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(t.Context(), dir, e, "", all, []string{"b"}); err == nil {
		t.Error("an unknown probe was asked")
	}
	text, err := os.ReadFile(filepath.Join(dir, "20348.1-ko-KR.json"))
	if err != nil {
		t.Fatal(err)
	}
	var have evidence
	if err := json.Unmarshal(text, &have); err != nil {
		t.Fatal(err)
	}
	want := []result{{"yes", "as expected", "1"}, {"no", "otherwise", "2"}, {"dumb", "not asked", "3"},
		{"ssh yes", "as expected", "1"}, {"ssh no", "otherwise", "2"}, {"ssh dumb", "not asked", "3"}}
	if diff := cmp.Diff(want, have.Results); diff != "" || have.Version != 1 || have.Time.IsZero() {
		t.Errorf("%+v\n%s", have, diff)
	}
}
