//go:build ignore

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// option is a flag of one version; deprecated is the text of its deprecation.
type option struct{ deprecated string }

func writeFlags() {
	kubelet, proxy := map[string]map[string]option{}, map[string]map[string]option{} // version, name
	for _, v := range versions {
		src := kubernetes(v)
		base := must(staging("component-base", v))
		logging := []string{
			filepath.Join(base, "logs/logs.go"), filepath.Join(base, "logs/config.go"),
			filepath.Join(base, "logs/options.go"), filepath.Join(base, "logs/api/v1/options.go"),
		}
		klog := readFlags(klogSource(src))

		options := filepath.Join(src, "cmd/kubelet/app/options")
		k := readFlags(
			filepath.Join(options, "options.go"), filepath.Join(options, "container_runtime.go"),
			filepath.Join(options, "globalflags.go"), filepath.Join(options, "globalflags_other.go"),
			filepath.Join(options, "globalflags_providers.go"), filepath.Join(options, "osflags_windows.go"),
			filepath.Join(src, "pkg/kubelet/config/flags.go"),
		)
		app := filepath.Join(src, "cmd/kube-proxy/app")
		p := readFlags(filepath.Join(app, "server.go"), filepath.Join(app, "options.go"),
			filepath.Join(app, "init_windows.go"))

		addLogging(k, minorNumber(v), klog, logging, uses(options, "options.go", "logs.", "logsapi."),
			movedToFile(parse(filepath.Join(options, "options.go"))))
		addLogging(p, minorNumber(v), klog, logging, uses(app, "options.go", "logsapi.AddFlags") ||
			uses(app, "server.go", "logsapi.AddFlags"), nil)
		kubelet[v], proxy[v] = k, p
		log.Printf("%s: %d kubelet flags, %d kube-proxy flags", v, len(k), len(p))
	}
	saveFlags("data/kubelet_flags.txt", "Flags of kubelet on Windows", kubelet)
	saveFlags("data/kube_proxy_flags.txt", "Flags of kube-proxy on Windows", proxy)
}

// addLogging adds the flags that come from klog and component-base. Until 1.25
// every klog flag is there (component-base logs.AddFlags, or the process-wide
// flag set that cobra adds), from 1.23 deprecated; later only v, vmodule and
// log-flush-frequency (kubernetes/kubernetes#112120).
func addLogging(into map[string]option, minor int, klog map[string]option, files []string, bound bool,
	moved func(token.Pos, string) string) {
	const deprecation = "will be removed in a future release, see " +
		"https://github.com/kubernetes/enhancements/tree/master/keps/" +
		"sig-instrumentation/2845-deprecate-klog-specific-flags-in-k8s-components"
	for name := range klog {
		f := option{}
		switch {
		case name == "v" || name == "vmodule":
		case minor > 25:
			continue
		case minor >= 23:
			f.deprecated = deprecation
		}
		into[name] = f
	}
	into["log-flush-frequency"] = option{}
	into["version"] = option{} // component-base version/verflag, in all of them
	into["help"] = option{}    // cobra
	if bound {
		for name, f := range readFlags(files...) {
			if _, have := into[name]; have {
				continue
			}
			if moved != nil && f.deprecated == "" {
				f.deprecated = moved(token.NoPos, name)
			}
			into[name] = f
		}
	}
}

func uses(dir, file string, any ...string) bool {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(any, func(s string) bool { return bytes.Contains(b, []byte(s)) })
}

func klogSource(src string) string {
	b, err := os.ReadFile(filepath.Join(src, "go.mod"))
	if err != nil { // 1.14 had no go.mod; it vendored klog 0.2
		return filepath.Join(must(module("k8s.io/klog", "0.3.1")), "klog.go")
	}
	m := regexp.MustCompile(`\s(k8s\.io/klog(?:/v2)?) v(\S+)`).FindSubmatch(b)
	return filepath.Join(must(module(string(m[1]), string(m[2]))), "klog.go")
}

var registers = regexp.MustCompile(
	`^(Bool|String|Int|Int32|Int64|Uint|Uint16|Uint64|Float32|Float64|Duration|` +
		`StringSlice|StringArray|StringToString|IP|IPNet|IPSlice)?(Var)?(PF|P)?$`)

// readFlags collects the flags that the files register; files that a version lacks are skipped.
func readFlags(files ...string) map[string]option {
	var parsed []*ast.File
	for _, name := range files {
		if f := parse(name); f != nil {
			parsed = append(parsed, f)
		}
	}
	consts := constants(parsed)
	found := map[string]option{}
	messages := map[string]string{}
	for _, f := range parsed {
		moved := movedToFile(f)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method := methodOf(call)
			if method == "MarkDeprecated" {
				if name, ok := literal(call.Args[0], consts); ok {
					messages[name], _ = literal(call.Args[1], consts)
				}
				return true
			}
			if name, ok := registered(call, method, consts); ok {
				found[name] = option{deprecated: moved(call.Pos(), name)}
			}
			return true
		})
	}
	for name, message := range messages {
		if _, ok := found[name]; ok {
			found[name] = option{deprecated: cmp.Or(message, "deprecated")}
		}
	}
	return found
}

// constants returns the text constants and variables of the files by name.
func constants(files []*ast.File) map[string]string {
	consts := map[string]string{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, id := range spec.Names {
				if i >= len(spec.Values) {
					break
				}
				if s, ok := literal(spec.Values[i], nil); ok {
					consts[id.Name] = s
				}
			}
			return true
		})
	}
	return consts
}

// methodOf returns the name of the function that is called, "" if it has none.
func methodOf(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		return fun.Sel.Name
	case *ast.Ident:
		return fun.Name
	}
	return ""
}

// registered returns the name of the flag that a call of method registers. Every registration has a name, a default
// and a usage text.
func registered(call *ast.CallExpr, method string, consts map[string]string) (string, bool) {
	var at, args int // index of the name, lowest number of arguments
	switch {
	case method == "register" || method == "pflagRegister" || method == "registerDeprecated":
		at, args = 2, 3
	case method == "" || !registers.MatchString(method):
		return "", false
	case strings.Contains(method, "Var"):
		at, args = 1, 3
	default:
		at, args = 0, 2
	}
	if len(call.Args) < args {
		return "", false
	}
	name, ok := literal(call.Args[at], consts)
	if !ok || name == "" || strings.ContainsAny(name, " %/:.") {
		return "", false
	}
	return strings.ReplaceAll(name, "_", "-"), true
}

// parse returns nil for a file that does not exist.
func parse(name string) *ast.File {
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		log.Fatal(err)
	}
	return f
}

// movedToFile sets the text "config" on the flags that kubelet's AddKubeletConfigFlags registers, by position
// and name: it marks them as deprecated in favour of the configuration file, except for those in its map
// notDeprecated. The flags of component-base that it binds have no position.
func movedToFile(f *ast.File) func(token.Pos, string) string {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "AddKubeletConfigFlags" {
			continue
		}
		stay := map[string]bool{}
		bindsLogging := false
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if name, ok := literal(n.Key, nil); ok {
					stay[name] = true
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && (x.Name == "logs" || x.Name == "logsapi") {
					bindsLogging = true
				}
			}
			return true
		})
		return func(at token.Pos, name string) string {
			if stay[name] || at == token.NoPos && !bindsLogging || at != token.NoPos && (at < fn.Pos() || fn.End() <= at) {
				return ""
			}
			return "config"
		}
	}
	return func(token.Pos, string) string { return "" }
}

// literal returns the value of a string literal, a concatenation of them, or a constant of the files.
func literal(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		l, ok1 := literal(e.X, consts)
		r, ok2 := literal(e.Y, consts)
		return l + r, ok1 && ok2
	case *ast.Ident:
		s, ok := consts[e.Name]
		return s, ok
	case *ast.SelectorExpr:
		s, ok := consts[e.Sel.Name]
		return s, ok
	}
	return "", false
}

func saveFlags(file, what string, have map[string]map[string]option) {
	present := map[string][]string{}
	for _, v := range versions {
		for name := range have[v] {
			present[name] = append(present[name], v)
		}
	}
	var b bytes.Buffer
	header(&b, what)
	fmt.Fprint(&b, "# name | since (- is the first version read, or before) | until (exclusive; - is none) | "+
		"deprecated since | the deprecation's text\n")
	for _, name := range sortedKeys(present) {
		spans(present[name], func(since, until string, in []string) {
			deprecated, text := "-", ""
			for _, v := range in {
				message := have[v][name].deprecated
				switch {
				case message == "":
					deprecated = "-"
				case deprecated == "-":
					deprecated = minorOf(v)
				}
				text = strings.Join(strings.Fields(message), " ")
			}
			fmt.Fprintln(&b, strings.TrimRight(strings.Join([]string{name, since, until, deprecated, text}, " | "), " |"))
		})
	}
	save(file, &b)
}
