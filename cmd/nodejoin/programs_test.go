package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// realPrograms are what scripts of testdata/programs build, each from its module. Where that has replacements, go.mod
// is in a folder of testdata/programs/modules, else the package has a version.
var realPrograms = map[string]struct{ pkg, module string }{
	"sops":       {"github.com/getsops/sops/v3/cmd/sops@v3.13.3", ""},
	"age-keygen": {"filippo.io/age/cmd/age-keygen@v1.3.2", ""},
	"tofu":       {"github.com/opentofu/opentofu/cmd/tofu", "tofu"},
	"cosign":     {"github.com/sigstore/cosign/v3/cmd/cosign", "cosign"},
}

// buildBound is how long the build of one program may take, where nothing of it is cached and the machine is busy.
const buildBound = 40 * time.Minute

var building sync.Mutex

// TestPrograms: the programs of other projects that pages name do with nodejoin what the pages say. It builds them,
// so it runs only where NODEJOIN_TEST_RELEASE is set.
func TestPrograms(t *testing.T) {
	if os.Getenv("NODEJOIN_TEST_RELEASE") == "" {
		t.Skip("builds programs, which takes minutes the first time; set NODEJOIN_TEST_RELEASE")
	}
	params := scriptParams("testdata/programs")
	params.Cmds["fence"], params.Cmds["program"] = cmdFence, cmdProgram
	params.Setup = setupPages
	testscript.Run(t, params)
}

// cmdProgram builds a program into the folder bin, which is first in PATH from then on: program NAME
func cmdProgram(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || realPrograms[args[0]].pkg == "" {
		ts.Fatalf("usage: program NAME, of realPrograms")
	}
	p, bin := realPrograms[args[0]], ts.MkAbs("bin")
	building.Lock() // side by side each takes longer, and memory
	defer building.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), buildBound)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w", p.pkg)
	if p.module != "" {
		build.Dir = filepath.Join(ts.Getenv("REPOSITORY"), "cmd/nodejoin/testdata/programs/modules", p.module)
	}
	build.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("%s: %v\n%s", p.pkg, err, out)
	}
	ts.Setenv("PATH", bin+string(os.PathListSeparator)+ts.Getenv("PATH"))
}
