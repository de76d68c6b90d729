package acceptance_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// matrix returns the combinations of versions, networks and Windows releases that the fast tests compile, and
// the plan for one of them (plan/render/testdata).
func matrix(t *testing.T) (combinations []string, plan string) {
	t.Helper()
	dir := filepath.Join(repository(t), "plan", "render", "testdata")
	list, err := os.ReadFile(filepath.Join(dir, "matrix.golden"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "matrix.plan"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		name, outcome, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			t.Fatalf("matrix.golden: %q", line)
		}
		if !strings.HasPrefix(outcome, "refused") {
			combinations = append(combinations, name)
		}
	}
	return combinations, string(text)
}

// rendered returns the files that `nodejoin render` writes for a combination, by their path below the node's
// folder. Manifests of the cluster are below _manifests.
func rendered(ctx context.Context, t *testing.T, plan, combination string) map[string]string {
	t.Helper()
	f := strings.Split(combination, ", ")
	kind, version, _ := strings.Cut(f[1], " ")
	values := map[string]string{"KUBERNETES": f[0], "RUNTIME": kind, "RUNTIME_VERSION": version, "BACKEND": f[2],
		"BUILD": f[3], "NAMES": "$NAMES"}
	dir := t.TempDir()
	file, out := filepath.Join(dir, "a.join.hcl"), filepath.Join(dir, "out")
	text := os.Expand(plan, func(name string) string { return values[name] })
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := released(t).command(ctx, t, "render", "--out", out, file)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", combination, err, b)
	}
	files := map[string]string{}
	err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(out, path)
		files[strings.TrimPrefix(filepath.ToSlash(rel), "win-1/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// artifact is a rendered file with the combinations that have exactly this file.
type artifact struct {
	path, content string
	of            []string
}

func (a *artifact) String() string { return fmt.Sprintf("%s of %s", a.path, a.of[0]) }

// distinct merges equal files of the combinations, in the order of the matrix.
func distinct(ctx context.Context, t *testing.T, want func(combination, path string) bool) []*artifact {
	t.Helper()
	combinations, plan := matrix(t)
	if len(combinations) == 0 {
		t.Fatal("the matrix has no combination that is rendered")
	}
	var all []*artifact
	seen := map[string]*artifact{}
	for _, c := range combinations {
		files := rendered(ctx, t, plan, c)
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if !want(c, path) {
				continue
			}
			key := path + "\x00" + files[path]
			if seen[key] == nil {
				seen[key] = &artifact{path: path, content: files[path]}
				all = append(all, seen[key])
			}
			seen[key].of = append(seen[key].of, c)
		}
	}
	return all
}
