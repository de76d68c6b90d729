package plan_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImports: the language touches no host and no network. It links nothing that could, so
// anyone can check a plan anywhere without side effects.
func TestImports(t *testing.T) {
	forbidden := []string{"net/http", "os/exec", "nodejoin/steps/transport", "nodejoin/steps/engine",
		"nodejoin/steps/cluster",
		"nodejoin/steps/artifact", "golang.org/x/crypto/ssh", "k8s.io/client-go", "github.com/mholt/archiver/v4"}
	for _, pkg := range deps(t, "nodejoin/plan/...") {
		for _, not := range forbidden {
			if pkg.ImportPath == not || strings.HasPrefix(pkg.ImportPath, not+"/") && not != "net/http" {
				t.Errorf("plan or a package below it links %s", pkg.ImportPath)
			}
		}
	}
	for _, pkg := range deps(t, "nodejoin/plan/graph") {
		if !pkg.Standard && pkg.ImportPath != "nodejoin/plan/graph" {
			t.Errorf("plan/graph links %s; it needs the standard library only", pkg.ImportPath)
		}
	}
	for _, pkg := range deps(t, "nodejoin/plan/compat") {
		if strings.HasPrefix(pkg.ImportPath, "nodejoin/") && pkg.ImportPath != "nodejoin/plan/compat" {
			t.Errorf("plan/compat links %s; it is data and needs no other package of ours", pkg.ImportPath)
		}
	}
	// Recipes know nothing of the language that uses them.
	for _, pkg := range deps(t, "nodejoin/plan/recipe") {
		if pkg.ImportPath == "nodejoin/plan" || strings.HasPrefix(pkg.ImportPath, "github.com/hashicorp/hcl") {
			t.Errorf("plan/recipe links %s", pkg.ImportPath)
		}
	}
}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

// deps lists the packages that a pattern links, itself included.
func deps(t *testing.T, pattern string) []listed {
	t.Helper()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no Go tool")
	}
	out, err := exec.Command(tool, "list", "-deps", "-json=ImportPath,Imports,Standard", pattern).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("go list %s: %s", pattern, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if !slices.ContainsFunc(list, func(p listed) bool { return strings.HasPrefix(p.ImportPath, "nodejoin/") }) {
		t.Fatalf("go list %s names no package of the module", pattern)
	}
	return list
}
