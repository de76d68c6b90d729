package plan_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// summaryAt is the index of the summary in the arguments of the functions that
// report: fail(range, summary, ...), failOn(node, range, summary, ...).
var summaryAt = map[string]int{"Fail": 1, "FailAt": 1, "Warn": 1, "FailOn": 2, "WarnOn": 2, "fail": 1}

// computed are the summaries that componentJudge.verdict builds from the answer of a
// version table and the thing that it looked up.
var computed = []string{
	"unknown flag", "removed flag", "too new flag", "deprecated flag",
	"unknown configuration field", "removed configuration field", "too new configuration field",
	"refused configuration field",
	"unknown feature gate", "removed feature gate", "too new feature gate", "refused feature gate",
	"deprecated feature gate",
}

// internal rules fire only on a mistake in nodejoin, a failing file system, or a minute of work.
var internal = map[string]string{
	"invalid recipe": "a recipe names a step that it does not have",
	"invalid step":   "the arguments of a step cannot be written as JSON",

	"the plan takes too much": "TestLimits shows it, with small limits",
}

// TestRulesHaveCases reads the rules, which are the summaries of diagnostics, from
// the source, and wants a case of the corpus for each.
func TestRulesHaveCases(t *testing.T) {
	rules := rulesOf(t)
	for _, s := range computed {
		rules[s] = "component.go"
	}
	seen := corpusSummaries(t)
	for rule, where := range rules {
		if !seen[rule] && internal[rule] == "" {
			t.Errorf("no case of the corpus shows the rule %q (%s)", rule, where)
		}
	}
	for rule := range internal {
		if rules[rule] == "" {
			t.Errorf("the rule %q no longer exists", rule)
		}
	}
	if len(rules) < 80 {
		t.Errorf("only %d rules were found", len(rules))
	}
}

// TestCorpusSize checks that the corpus is large enough to cover the language.
func TestCorpusSize(t *testing.T) {
	for sort, least := range map[string]int{"invalid": 120, "valid": 40} {
		list, err := filepath.Glob(filepath.Join("testdata", sort, "*.txtar"))
		if err != nil || len(list) < least {
			t.Errorf("testdata/%s has %d cases, want %d or more (%v)", sort, len(list), least, err)
		}
	}
}

func rulesOf(t *testing.T) map[string]string {
	t.Helper()
	var files []string
	for _, folder := range []string{".", "source", "eval", "block", "rule", "../steps"} {
		list, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(list) == 0 {
			t.Fatalf("no source in %s: %v", folder, err)
		}
		files = append(files, list...)
	}
	rules := map[string]string{}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		note := func(e ast.Expr) {
			at := set.Position(e.Pos()).String()
			if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				rules[text] = at
				return
			}
			if id, ok := e.(*ast.Ident); ok && id.Name == "summary" {
				return // the function passes its parameter on
			}
			if b, ok := e.(*ast.BinaryExpr); ok && filepath.Base(name) == "component.go" && b.Op == token.ADD {
				return // computed
			}
			t.Errorf("%s: the summary of a diagnostic is not a literal, so the test cannot check that it has a case", at)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if strings.HasPrefix(name, "..") { // a kind's remarks on arguments are diagnostics; its errors are not
				if lit, ok := n.(*ast.CompositeLit); ok && keyed(lit, "Arg") != nil && keyed(lit, "Summary") != nil {
					note(keyed(lit, "Summary"))
				}
				return true
			}
			switch n := n.(type) {
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					break
				}
				if i, ok := summaryAt[sel.Sel.Name]; ok && len(n.Args) > i+1 {
					note(n.Args[i])
				}
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok && id.Name == "Summary" {
					note(n.Value)
				}
			}
			return true
		})
	}
	return rules
}

// keyed returns the value of a field in a composite literal, or nil if the field is not set.
func keyed(lit *ast.CompositeLit, field string) ast.Expr {
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok && id.Name == field {
				return kv.Value
			}
		}
	}
	return nil
}

var caseLine = regexp.MustCompile(`(?m)^[^\n]*?: (?:error|warning): ([^:\n]+): `)

func corpusSummaries(t *testing.T) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for _, sort := range []string{"valid", "invalid"} {
		files, err := filepath.Glob(filepath.Join("testdata", sort, "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			_, want, _ := strings.Cut(string(src), "-- "+wantFile+" --\n")
			for _, m := range caseLine.FindAllStringSubmatch(want, -1) {
				seen[m[1]] = true
			}
		}
	}
	return seen
}
