package steps_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floors are the packages of ours that those of the steps may import.
var floors = map[string][]string{
	"nodejoin/steps/record":    {"steps/host"},
	"nodejoin/steps":           {"steps/event", "steps/host", "steps/kube", "steps/record"},
	"nodejoin/steps/preflight": {"steps", "steps/host"},
	"nodejoin/steps/kinds": {"steps", "steps/event", "steps/host", "steps/kube", "steps/preflight", "steps/record",
		"steps/wait"},
	"nodejoin/steps/executor":   {"steps", "steps/event", "steps/host", "steps/kube", "steps/record", "steps/wait"},
	"nodejoin/steps/collect":    {"steps", "steps/executor", "steps/host", "steps/kinds", "steps/record"},
	"nodejoin/steps/generalize": {"steps", "steps/executor", "steps/host", "steps/hostlock", "steps/record"},
	"nodejoin/steps/selftest":   {"steps/host", "steps/selftest/loopback", "steps/wait"},
	"nodejoin/steps/doctor":     {"steps", "steps/host", "steps/kinds", "steps/kube", "steps/preflight"},
}

// TestImports holds who may import what, for the whole module.
func TestImports(t *testing.T) {
	for _, pkg := range list(t, "", "nodejoin/...") {
		for _, imp := range pkg.Imports {
			for library, owner := range map[string]string{
				"k8s.io/client-go":             "nodejoin/steps/cluster",  // the agent must not link it
				"github.com/mholt/archiver/v4": "nodejoin/steps/agentbin", // nor this, with its many formats
			} {
				if under(imp, library) && pkg.ImportPath != owner {
					t.Errorf("%s imports %s; only %s may", pkg.ImportPath, imp, owner)
				}
			}
			if under(pkg.ImportPath, "nodejoin/steps") && !under(pkg.ImportPath, "nodejoin/steps/engine") &&
				under(imp, "nodejoin/plan") {
				t.Errorf("%s imports %s; steps do not know of plans", pkg.ImportPath, imp)
			}
			if floor, ok := floors[pkg.ImportPath]; ok {
				if under(imp, "nodejoin") && !slices.Contains(floor, strings.TrimPrefix(imp, "nodejoin/")) {
					t.Errorf("%s imports %s, which is not below it", pkg.ImportPath, imp)
				}
				if imp == "net/http" || imp == "os/exec" || imp == "net" {
					t.Errorf("%s imports %s; steps reach machines and the network through their interfaces only", pkg.ImportPath, imp)
				}
			}
			if pkg.ImportPath == "nodejoin/steps/record" && under(imp, "nodejoin") && imp != "nodejoin/steps/host" {
				t.Errorf("%s imports %s; the record knows of hosts alone", pkg.ImportPath, imp)
			}
			if under(imp, "nodejoin/cmd") && !under(pkg.ImportPath, "nodejoin/cmd") {
				t.Errorf("%s imports %s; commands are for nobody", pkg.ImportPath, imp)
			}
		}
	}
}

// TestAgentImports: the agent is pushed to every machine, so it links neither the
// language nor the client of the cluster.
func TestAgentImports(t *testing.T) {
	for _, goos := range []string{"windows", "linux"} {
		for _, pkg := range list(t, goos, "-deps", "nodejoin/cmd/nodejoin-agent") {
			for _, not := range []string{"github.com/hashicorp/hcl", "github.com/zclconf/go-cty", "k8s.io",
				"nodejoin/plan", "nodejoin/steps/cluster", "nodejoin/steps/engine", "github.com/Azure/go-ntlmssp",
				"github.com/jcmturner/gokrb5/v8"} {
				if under(pkg.ImportPath, not) {
					t.Errorf("%s: the agent links %s", goos, pkg.ImportPath)
				}
			}
		}
	}
}

// under reports whether a package is another one or is in its folder.
func under(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }

type listed struct {
	ImportPath string
	Imports    []string
}

// list is go list, without tests; goos "" is that of this machine.
func list(t *testing.T, goos string, args ...string) []listed {
	t.Helper()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no Go tool here")
	}
	cmd := exec.Command(tool, append([]string{"list", "-json=ImportPath,Imports"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if goos != "" {
		cmd.Env = append(cmd.Env, "GOOS="+goos)
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("go list %v: %s", args, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) == 0 {
		t.Fatalf("go list %v names no package", args)
	}
	return pkgs
}
