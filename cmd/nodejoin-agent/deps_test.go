package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// TestDependencies: the agent stays small. Only the controller links the plan's language,
// the cluster's client and the SSH client.
func TestDependencies(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go tool")
	}
	for _, goos := range []string{"windows", "linux"} {
		cmd := exec.Command("go", "list", "-deps", ".")
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+runtime.GOARCH, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", goos, err)
		}
		for _, pkg := range strings.Fields(string(out)) {
			for _, not := range []string{"github.com/hashicorp/hcl", "github.com/zclconf/go-cty", "k8s.io/client-go",
				"k8s.io/api", "golang.org/x/crypto/ssh", "github.com/pkg/sftp", "github.com/spf13/cobra", "nodejoin/plan",
				"nodejoin/steps/engine"} {
				if pkg == not || strings.HasPrefix(pkg, not+"/") {
					t.Errorf("%s: the agent links %s", goos, pkg)
				}
			}
		}
	}
}
