package steps_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// together are files of one package that need each other.
var together = map[string]bool{
	"steps/kinds: archive.go, archive_versions.go":    true, // a kind over two files
	"steps/kinds: kubeadm_config.go, kubeadm_join.go": true, // likewise
	"steps/engine: apply.go, removal.go":              true, // a host's apply, and what it removes
}

// TestFilesStandInFloors: of two files of a package, one at the most uses what the other declares.
// Fields do not count; their type does.
func TestFilesStandInFloors(t *testing.T) {
	for _, dir := range []string{"plan", "plan/block", "steps/engine", "steps/executor", "steps/kinds"} {
		uses := usesOfFiles(t, filepath.Join("..", filepath.FromSlash(dir)))
		byName := func(x, y [2]string) int { return slices.Compare(x[:], y[:]) }
		for _, pair := range slices.SortedFunc(maps.Keys(uses), byName) {
			a, b := pair[0], pair[1]
			back, mutual := uses[[2]string{b, a}]
			if name := dir + ": " + a + ", " + b; mutual && a < b && !together[name] {
				t.Errorf("%s uses %s, and back %s; move what both need below them", name, uses[pair], back)
			}
		}
	}
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
