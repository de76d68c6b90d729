//go:build ignore

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field of a Go struct as JSON sees it.
type field struct {
	json, goName, goType string
	inline               bool
}

// path of a field from the root, and the Go name of the last step.
type paths map[string]string

// writeFields writes the fields of KubeletConfiguration (v1beta1) and KubeProxyConfiguration (v1alpha1),
// nested ones as a.b.c. Lists and maps of structs are written as if they were the struct.
//
// The module proxy lacks k8s.io/kube-proxy for some versions. There a field counts as present if the nearest
// versions before and after have it, or if one of them has it and the internal types of k8s.io/kubernetes
// have a field of its name.
func writeFields() {
	kubelet, proxy := map[string]paths{}, map[string]paths{}
	var missing []string
	for _, v := range versions {
		base := must(staging("component-base", v))
		shared := []string{
			filepath.Join(base, "config/v1alpha1/types.go"), filepath.Join(base, "logs/api/v1/types.go"),
			filepath.Join(base, "tracing/api/v1/types.go"),
		}
		k := structs(append(shared, filepath.Join(must(staging("kubelet", v)), "config/v1beta1/types.go"))...)
		kubelet[v] = paths{}
		flatten(k, "KubeletConfiguration", "", 0, kubelet[v])

		dir, err := staging("kube-proxy", v)
		if err != nil {
			missing = append(missing, v)
			continue
		}
		p := structs(append(shared, filepath.Join(dir, "config/v1alpha1/types.go"))...)
		proxy[v] = paths{}
		flatten(p, "KubeProxyConfiguration", "", 0, proxy[v])
	}
	for _, v := range missing {
		names := map[string]bool{}
		for _, fields := range structs(filepath.Join(kubernetes(v), "pkg/proxy/apis/config/types.go")) {
			for _, f := range fields {
				names[f.goName] = true
			}
		}
		at := slices.Index(versions, v)
		found := paths{}
		before, after := neighbour(missing, at, -1), neighbour(missing, at, +1)
		for _, other := range []string{before, after} {
			for path, goName := range proxy[other] {
				top, _, nested := strings.Cut(path, ".")
				shared := nested && (top == "logging" || top == "clientConnection") && names[proxy[other][top]]
				_, old := proxy[before][path]
				_, new := proxy[after][path]
				if old && new || names[strings.TrimPrefix(goName, "Windows")] || shared {
					found[path] = goName
				}
			}
		}
		proxy[v] = found
	}
	log.Printf("kube-proxy fields by internal types: %v", missing)
	saveFields("data/kubelet_fields.txt", "Fields of KubeletConfiguration kubelet.config.k8s.io/v1beta1", kubelet)
	saveFields("data/kube_proxy_fields.txt", "Fields of KubeProxyConfiguration kubeproxy.config.k8s.io/v1alpha1", proxy)
}

func neighbour(missing []string, at, step int) string {
	for at += step; at >= 0 && at < len(versions); at += step {
		if !slices.Contains(missing, versions[at]) {
			return versions[at]
		}
	}
	return ""
}

func saveFields(file, what string, have map[string]paths) {
	present := map[string][]string{}
	for _, v := range versions {
		for path := range have[v] {
			present[path] = append(present[path], v)
		}
	}
	var b bytes.Buffer
	header(&b, what)
	fmt.Fprint(&b, "# path | since (- is the first version read, or before) | until (exclusive; - is none)\n")
	for _, path := range sortedKeys(present) {
		spans(present[path], func(since, until string, _ []string) {
			fmt.Fprintln(&b, strings.Join([]string{path, since, until}, " | "))
		})
	}
	save(file, &b)
}

// structs reads the struct types of the files that exist.
func structs(files ...string) map[string][]field {
	out := map[string][]field{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			t, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := t.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, sf := range s.Fields.List {
				typ := typeName(sf.Type)
				one := field{goType: typ, goName: typ}
				if len(sf.Names) > 0 {
					one.goName = sf.Names[0].Name
				}
				if sf.Tag != nil {
					tag, _ := strconv.Unquote(sf.Tag.Value)
					name, opts, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
					one.json = name
					one.inline = strings.Contains(opts, "inline") || len(sf.Names) == 0 && name == ""
				}
				out[t.Name.Name] = append(out[t.Name.Name], one)
			}
			return false
		})
	}
	return out
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ArrayType:
		return typeName(e.Elt)
	case *ast.MapType:
		return typeName(e.Value)
	}
	return ""
}

func flatten(types map[string][]field, name, prefix string, depth int, into paths) {
	if depth > 5 {
		return
	}
	for _, f := range types[name] {
		switch {
		case f.json == "-" || f.goType == "TypeMeta":
		case f.json == "":
			if f.inline {
				flatten(types, f.goType, prefix, depth+1, into)
			}
		default:
			into[prefix+f.json] = f.goName
			flatten(types, f.goType, prefix+f.json+".", depth+1, into)
		}
	}
}
