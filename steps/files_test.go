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

// TestFilesStandInFloors: of two files of a package, one at the most uses what the other declares.
// Fields do not count; their type does.
func TestFilesStandInFloors(t *testing.T) {
	for _, dir := range packages(t) {
		uses := usesOfFiles(t, filepath.Join("..", filepath.FromSlash(dir)))
		byName := func(x, y [2]string) int { return slices.Compare(x[:], y[:]) }
		var mutual []string
		for _, pair := range slices.SortedFunc(maps.Keys(uses), byName) {
			a, b := pair[0], pair[1]
			if back := uses[[2]string{b, a}]; back != "" && a < b {
				mutual = append(mutual, fmt.Sprintf("%s uses %s of %s, which uses its %s", a, uses[pair], b, back))
			}
		}
		if len(mutual) > 0 {
			t.Errorf("%s: these files use each other; move what both need below them:\n%s", dir, strings.Join(mutual, "\n"))
		}
	}
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
