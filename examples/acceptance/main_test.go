// Package acceptance_test runs nodejoin against real components; see run.sh.
package acceptance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/components"
)

// scratch is a folder that the tests share; it is removed at the end.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "nodejoin-acceptance-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		code := m.Run()
		if err := noSecretBelow(filepath.Join(scratch, "home", ".local", "state"), "*"); err != nil {
			fmt.Fprintln(os.Stderr, err) // the histories of all runs
			return 1
		}
		return code
	}())
}

// componentSet returns the set of built components. If one is missing, the test fails: it has not tested
// anything.
func componentSet(t *testing.T) *components.Set {
	t.Helper()
	dir, err := components.Dir()
	if err != nil {
		t.Fatal(err)
	}
	src, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	set := components.New(dir, src)
	stale, err := set.Stale()
	if err != nil {
		t.Fatal(err)
	}
	if len(stale) > 0 {
		t.Fatalf("not built, or older than the sources: %v; run examples/acceptance/run.sh", stale)
	}
	return set
}

// repository is the root of nodejoin's own module.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// goBuild runs `go VERB -o OUT ARGS` in nodejoin's module, once for each OUT, and
// returns the path of OUT. VERB is build or test.
func goBuild(t *testing.T, goos, out string, verb string, args ...string) string {
	t.Helper()
	return goBuildIn(t, repository(t), goos, out, verb, args...)
}

// goBuildIn is goBuild in another folder than the root of the repository.
func goBuildIn(t *testing.T, dir, goos, out string, verb string, args ...string) string {
	t.Helper()
	return made(t, out, func(path string) {
		argv := []string{verb}
		if verb == "test" {
			argv = append(argv, "-c")
		}
		cmd := exec.CommandContext(t.Context(), "go", append(append(argv, "-buildvcs=false", "-o", path), args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, output)
		}
	})
}

// made returns the path of a file or folder that tests share, also those that run side by side
// in other processes. The first one that asks for it makes it.
func made(t *testing.T, name string, build func(path string)) string {
	t.Helper()
	shared := os.Getenv("NODEJOIN_TEST_BUILDS")
	if shared == "" {
		shared = scratch
	}
	if err := os.MkdirAll(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(shared, name)
	unlock, err := components.Lock(t.Context(), path+".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	part := path + ".part"
	build(part)
	if err := os.Rename(part, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// packAgents builds the agents, packed as a release carries them, once for each build tag.
func packAgents(t *testing.T, tag string) string {
	t.Helper()
	return made(t, "agents"+tag, func(dir string) {
		pack := exec.CommandContext(t.Context(), "go", "run", "./steps/agentbin/gen", "-o", dir, "-tags", tag,
			"-targets", "windows/amd64 linux/amd64")
		pack.Dir = repository(t)
		pack.Env = append(os.Environ(), "GOWORK=off")
		if output, err := pack.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	})
}

// nodejoin builds the program as a release does, with the agents embedded. The agents are added with an
// overlay, so the source tree does not change.
func nodejoin(t *testing.T, goos string) string {
	t.Helper()
	return nodejoinWith(t, goos, "")
}

// nodejoinWith is nodejoin with an agent that is built with a build tag.
func nodejoinWith(t *testing.T, goos, agentTag string) string {
	t.Helper()
	packed := packAgents(t, agentTag)
	agents := map[string]string{}
	for _, file := range []string{"windows-amd64.tgz", "windows-amd64.sha256", "linux-amd64.zst", "linux-amd64.sha256"} {
		agents[filepath.Join(repository(t), "steps", "agentbin", "bin", file)] = filepath.Join(packed, file)
	}
	text, err := json.Marshal(map[string]any{"Replace": agents})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(scratch, "overlay"+agentTag+".json")
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return goBuild(t, goos, "nodejoin"+agentTag+"-"+goos+".exe", "build", "-trimpath", "-tags", "embedagent", "-overlay",
		overlay, "./cmd/nodejoin")
}

// cleanUpWait is for what a test does that is over its bound: it prints logs and ends machines.
const cleanUpWait = 30 * time.Second

// bounded returns the context of a test, which ends every wait of the test after limit, about three times what the
// test takes on two cores, and early enough before go test ends the process, which would print nothing of the test.
func bounded(t *testing.T, limit time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	if end, ok := t.Deadline(); ok {
		left := time.Until(end)
		limit = min(limit, left-min(cleanUpWait, left/4))
	}
	return context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("%s was not done after %v", t.Name(),
		limit.Round(time.Second)))
}
