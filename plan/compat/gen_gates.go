//go:build ignore

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"log"
	"path/filepath"
	"strconv"
	"strings"
)

// libraries whose gates both programs register, with the first minor version
// that is read. What is found for 1.36 is what the real programs list.
var libraries = []struct {
	module string
	since  int
	files  []string
}{
	{"apiserver", 14, []string{"pkg/features/kube_features.go"}},
	{"component-base", 24, []string{"logs/api/v1/kube_features.go", "logs/kube_features.go",
		"metrics/features/kube_features.go", "zpages/features/kube_features.go"}},
	{"client-go", 30, []string{"features/known_features.go"}},
	{"apiextensions-apiserver", 30, []string{"pkg/features/kube_features.go"}},
	{"controller-manager", 30, []string{"pkg/features/kube_features.go"}},
}

type spec struct {
	stage      string
	on, locked bool
}

func (s spec) String() string {
	out := s.stage + " off"
	if s.on {
		out = s.stage + " on"
	}
	if s.locked {
		out += " locked"
	}
	return out
}

func writeGates() {
	all := map[string]map[string]spec{} // gate, version
	for _, v := range versions {
		minor := minorNumber(v)
		files, err := filepath.Glob(filepath.Join(kubernetes(v), "pkg/features/*.go"))
		if err != nil {
			log.Fatal(err)
		}
		for _, lib := range libraries {
			if minor < lib.since {
				continue
			}
			dir := must(staging(lib.module, v))
			for _, f := range lib.files {
				files = append(files, filepath.Join(dir, f))
			}
		}
		for name, s := range readGates(minor, files) {
			if all[name] == nil {
				all[name] = map[string]spec{}
			}
			all[name][v] = s
		}
	}
	var b bytes.Buffer
	header(&b, "Feature gates of kubelet and kube-proxy and of the libraries they share")
	fmt.Fprintf(&b, "# name | from version: stage, default, lock; ... | removed in (- is never). 1.14 is 1.14 or "+
		"before.\n")
	for _, name := range sortedKeys(all) {
		var rows []string
		removed := "-"
		last := spec{}
		for _, v := range versions {
			s, known := all[name][v]
			switch {
			case known && (s != last || removed != "-"):
				rows = append(rows, minorOf(v)+" "+s.String())
				last, removed = s, "-"
			case !known && len(rows) > 0 && removed == "-":
				removed = minorOf(v)
			}
		}
		fmt.Fprintf(&b, "%s | %s | %s\n", name, strings.Join(rows, "; "), removed)
	}
	save("data/feature_gates.txt", &b)
}

// readGates returns the gates of the tables in files as they are at a minor version.
func readGates(minor int, files []string) map[string]spec {
	consts := map[string]string{}
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if f := parse(name); f != nil {
			parsed = append(parsed, f)
			addConstants(consts, f)
		}
	}
	gates := map[string]spec{}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			lit, ok := kv.Value.(*ast.CompositeLit)
			if !ok {
				return true
			}
			id := ""
			switch k := kv.Key.(type) {
			case *ast.Ident:
				id = k.Name
			case *ast.SelectorExpr:
				id = k.Sel.Name
			}
			name := id
			if s, ok := consts[id]; ok {
				name = s
			}
			if s, ok := specOf(lit, minor); ok && name != "" {
				gates[name] = s
				return false
			}
			return true
		})
	}
	return gates
}

// addConstants adds the text constants that f declares at its top level.
func addConstants(consts map[string]string, f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			vs := s.(*ast.ValueSpec)
			for i, id := range vs.Names {
				if i >= len(vs.Values) {
					break
				}
				lit, ok := vs.Values[i].(*ast.BasicLit)
				if !ok {
					continue
				}
				if text, err := strconv.Unquote(lit.Value); err == nil {
					consts[id.Name] = text
				}
			}
		}
	}
}

// specOf reads one specification, or the one of a list that is in force at minor.
func specOf(lit *ast.CompositeLit, minor int) (spec, bool) {
	var s spec
	found := false
	for _, e := range lit.Elts {
		switch e := e.(type) {
		case *ast.CompositeLit: // of a list, in rising order
			if at, ok := versionOf(e); ok && at > minor {
				continue
			}
			if one, ok := specOf(e, minor); ok {
				s, found = one, true
			}
		case *ast.KeyValueExpr:
			key, ok := e.Key.(*ast.Ident)
			if !ok {
				return s, false
			}
			switch key.Name {
			case "Default":
				v, ok := e.Value.(*ast.Ident)
				s.on = ok && v.Name == "true"
				found = true
			case "LockToDefault":
				v, ok := e.Value.(*ast.Ident)
				s.locked = ok && v.Name == "true"
			case "PreRelease":
				s.stage = stage(e.Value)
				found = true
			}
		}
	}
	if s.stage == "" {
		s.stage = "ga" // the zero value of featuregate.prerelease
	}
	return s, found
}

func stage(e ast.Expr) string {
	name := ""
	switch e := e.(type) {
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.Ident:
		name = e.Name
	}
	return strings.ToLower(name)
}

// versionOf reads Version: version.MustParse("1.31") or version.MajorMinor(1, 31) as 31.
func versionOf(lit *ast.CompositeLit) (int, bool) {
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := kv.Key.(*ast.Ident); !ok || key.Name != "Version" {
			continue
		}
		call, ok := kv.Value.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return 0, false
		}
		arg, ok := call.Args[len(call.Args)-1].(*ast.BasicLit)
		if !ok {
			return 0, false
		}
		text := strings.Trim(arg.Value, `"`)
		n, err := strconv.Atoi(text[strings.LastIndexByte(text, '.')+1:])
		return n, err == nil
	}
	return 0, false
}
