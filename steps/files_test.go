package steps_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFilesStandInFloors: no file of a package uses what needs it, itself or over other files.
// Fields do not count; their type does.
func TestFilesStandInFloors(t *testing.T) {
	for _, dir := range packages(t) {
		for _, circle := range circles(usesOfFiles(t, filepath.Join("..", filepath.FromSlash(dir)))) {
			t.Errorf("%s: these files need each other; move what they need below them: %s", dir, circle)
		}
	}
}

// TestCircles: the judge of TestFilesStandInFloors.
func TestCircles(t *testing.T) {
	uses := map[[2]string]string{{"a", "b"}: "B", {"b", "c"}: "C", {"b", "d"}: "D", {"c", "d"}: "D"}
	if got := circles(uses); got != nil {
		t.Errorf("floors: %q", got)
	}
	uses[[2]string{"d", "b"}] = "B2"
	uses[[2]string{"x", "y"}], uses[[2]string{"y", "x"}] = "Y", "X"
	got, want := circles(uses), []string{"b uses D of d uses B2 of b", "c uses D of d uses B2 of b uses C of c",
		"x uses Y of y uses X of x"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// circles returns a shortest way from a file back to itself, for each file that stands in none of those before it.
func circles(uses map[[2]string]string) (out []string) {
	next := map[string][]string{}
	for pair := range uses {
		next[pair[0]] = append(next[pair[0]], pair[1])
	}
	shown := map[string]bool{}
	for _, first := range slices.Sorted(maps.Keys(next)) {
		from := map[string]string{} // a file that was reached: by which one
		for queue := []string{first}; len(queue) > 0 && from[first] == ""; queue = queue[1:] {
			for _, to := range slices.Sorted(slices.Values(next[queue[0]])) {
				if from[to] == "" {
					from[to] = queue[0]
					queue = append(queue, to)
				}
			}
		}
		if from[first] == "" || shown[first] {
			continue
		}
		text := first
		for to := first; ; to = from[to] {
			text = fmt.Sprintf("%s uses %s of %s", from[to], uses[[2]string{from[to], to}], text)
			shown[to] = true
			if from[to] == first {
				break
			}
		}
		out = append(out, text)
	}
	return out
}

// packages are the folders of nodejoin with Go files, without its examples.
func packages(t *testing.T) (dirs []string) {
	t.Helper()
	for _, top := range []string{"cmd", "plan", "steps"} {
		err := filepath.WalkDir(filepath.Join("..", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			dir, err := filepath.Rel("..", filepath.Dir(path))
			if !slices.Contains(dirs, filepath.ToSlash(dir)) {
				dirs = append(dirs, filepath.ToSlash(dir))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

// usesOfFiles returns a name that a file uses of another one, for each pair of files that has one.
func usesOfFiles(t *testing.T, dir string) map[[2]string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: empty{}, Error: func(error) {}} // of other packages nothing is known
	pkg, _ := conf.Check(dir, fset, files, info)
	out := map[[2]string]string{}
	for id, o := range info.Uses {
		v, isVar := o.(*types.Var)
		if o.Pkg() != pkg || !o.Pos().IsValid() || isVar && (v.IsField() || v.Parent() != pkg.Scope()) {
			continue
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(o.Pos()).Filename)
		if key := [2]string{from, to}; from != to && (out[key] == "" || o.Name() < out[key]) {
			out[key] = o.Name()
		}
	}
	return out
}

// empty imports packages with nothing in them.
type empty struct{}

func (empty) Import(name string) (*types.Package, error) {
	base := path.Base(name)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(name)) // the major version
	}
	p := types.NewPackage(name, strings.TrimPrefix(base, "go-"))
	p.MarkComplete()
	return p, nil
}
