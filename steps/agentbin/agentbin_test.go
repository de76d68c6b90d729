//go:build !embedagent

package agentbin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// fakeModule writes a small module of our name whose agent prints text.
func fakeModule(t *testing.T) source {
	t.Helper()
	s := source{root: t.TempDir(), cache: filepath.Join(t.TempDir(), "agents")}
	edit(t, s, "go.mod", "module nodejoin\n\ngo 1.26.0\n")
	edit(t, s, "go.sum", "")
	edit(t, s, "cmd/nodejoin-agent/main.go",
		"package main\n\nimport \"nodejoin/said\"\n\nfunc main() { println(said.Text) }\n")
	edit(t, s, "said/said.go", "package said\n\nimport _ \"embed\"\n\n//go:embed text\nvar Text string\n")
	edit(t, s, "said/text", "one")
	edit(t, s, "said/said_test.go", "package said\n")
	edit(t, s, "other/other.go", "package other\n")
	return s
}

func edit(t *testing.T, s source, name, text string) {
	t.Helper()
	path := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestBuildAndCache(t *testing.T) {
	s := fakeModule(t)
	get := func() string {
		t.Helper()
		path, digest, err := s.get(t.Context(), runtime.GOOS, runtime.GOARCH)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != digest {
			t.Fatalf("%s is not of digest %s (%v)", path, digest, err)
		}
		return path
	}
	says := func(path string) string {
		out, err := exec.Command(path).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	first := get()
	if have := says(first); have != "one" {
		t.Fatalf("it says %q", have)
	}

	// From here on the Go tool may be asked only when something has changed.
	tool := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())
	start := time.Now()
	if again := get(); again != first {
		t.Errorf("unchanged source gives %s, then %s", first, again)
	}
	t.Logf("found in %s", time.Since(start))
	edit(t, s, "said/said_test.go", "package said // changed\n")
	edit(t, s, "other/other.go", "package other // changed\n")
	if again := get(); again != first {
		t.Error("files that do not go in count")
	}
	edit(t, s, "said/text", "twice")
	if _, _, err := s.get(t.Context(), runtime.GOOS, runtime.GOARCH); !errors.Is(err, ErrNoAgent) ||
		!strings.Contains(err.Error(), "Go tool") {
		t.Errorf("changed and no Go tool: %v", err)
	}
	t.Setenv("PATH", tool)
	second := get()
	if have := says(second); have != "twice" {
		t.Errorf("after an edit it says %q", have)
	}
	edit(t, s, "said/more.go", "package said\n\nfunc init() { Text = \"thrice\" }\n")
	if have := says(get()); have != "thrice" {
		t.Errorf("after a new file it says %q", have)
	}
	if err := os.WriteFile(get(), []byte("damaged"), 0o700); err != nil {
		t.Fatal(err)
	}
	if have := says(get()); have != "thrice" {
		t.Errorf("after damage it says %q", have)
	}
}

func TestBuildFails(t *testing.T) {
	s := fakeModule(t)
	edit(t, s, "said/said.go", "package said\n\nvar Text = 1 +\n")
	if _, _, err := s.get(t.Context(), "linux", "amd64"); err == nil || !strings.Contains(err.Error(), "said.go:") ||
		!strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("%v, want what the compiler says", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, _, err := s.get(ctx, "linux", "amd64"); !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestUnknownTarget(t *testing.T) {
	if _, _, err := Get(t.Context(), "plan9", "amd64"); !errors.Is(err, ErrNoAgent) {
		t.Errorf("%v, want ErrNoAgent", err)
	}
}

func TestFindSource(t *testing.T) {
	s, err := findSource(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.root, "cmd", "nodejoin-agent")); err != nil {
		t.Error(err)
	}
}

// TestSourceOfTheWorkingFolder: a program that does not know its source does not take that
// of a checkout that it is run in: it may be a stranger's pull request.
func TestSourceOfTheWorkingFolder(t *testing.T) {
	program := filepath.Join(t.TempDir(), "get")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", program,
		"./testdata/get")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	get := exec.CommandContext(t.Context(), program)
	get.Dir = fakeModule(t).root
	get.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	out, err := get.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "built with -trimpath") {
		t.Errorf("%v: %s", err, out)
	}
}
