package steps_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

// Each prefix of the record's keys has one kind that says how its claims are undone.
func TestUndoOfEachPrefix(t *testing.T) {
	declared := map[record.Prefix]string{}
	for _, k := range kinds.Catalog() {
		for prefix, u := range k.Undo {
			if other, ok := declared[prefix]; ok {
				t.Errorf("%s and %s both undo %s", other, k.Name, prefix)
			}
			declared[prefix] = k.Name
			if u.New == nil {
				t.Errorf("%s: nothing undoes %s", k.Name, prefix)
			}
			if u.Called == "" {
				t.Errorf("%s: %s has no words", k.Name, prefix)
			}
			if u.State != nil && u.Rollback == nil || u.IsNew != nil && u.Snapshot != steps.SnapshotNew {
				t.Errorf("%s: what a snapshot holds of %s is used by nothing", k.Name, prefix)
			}
		}
	}
	// They stand in steps/record or, where only one kind uses them, in the kind's file.
	files, err := filepath.Glob("kinds/*.go")
	stepstest.Must(t, err)
	var known []string
	for _, path := range append(files, "record/key.go") {
		text, err := os.ReadFile(path)
		stepstest.Must(t, err)
		for _, m := range regexp.MustCompile(`Prefix += "([a-z_]+)"`).FindAllSubmatch(text, -1) {
			if slices.Contains(known, string(m[1])) {
				t.Errorf("%s: prefix %s is there twice", path, m[1])
			}
			known = append(known, string(m[1]))
		}
	}
	if len(known) < 15 {
		t.Fatalf("prefixes %v", known)
	}
	for _, prefix := range known {
		if _, ok := declared[record.Prefix(prefix)]; !ok {
			t.Errorf("no kind undoes %s", prefix)
		}
	}
	for prefix, kind := range declared {
		if !slices.Contains(known, string(prefix)) {
			t.Errorf("%s undoes %s, which nothing names", kind, prefix)
		}
	}
}
