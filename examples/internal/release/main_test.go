package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nodejoin/plan/sbom"
	"nodejoin/steps/agentbin"
	"nodejoin/steps/host/hosttest"
)

// TestReproducible: the same source in two folders gives the same agent and the same archive, and its SBOM names
// every module in it. The second folder cannot use the build cache: a comment at the end of each file makes the
// compiler read all of them again, but does not change the program.
func TestReproducible(t *testing.T) {
	hosttest.Release(t)
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "another", "place")
	copySource(t, root, other, fmt.Sprintf("\n// %d\n", time.Now().UnixNano()))
	at := time.Unix(1_700_000_000, 0).UTC()
	var programs, archives [][]byte
	for _, dir := range []string{root, other} {
		out := filepath.Join(t.TempDir(), "agent")
		// Omit the build ID, because it contains a hash of the source.
		cmd := exec.CommandContext(t.Context(), "go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags",
			"-s -w -buildid=", "-o", out, "./cmd/nodejoin-agent")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, name := range []string{"nodejoin/steps", "nodejoin/steps/kinds", "nodejoin/cmd/nodejoin-agent"} {
			if dir == other && !strings.Contains("\n"+string(text), "\n"+name+"\n") {
				t.Errorf("%s was not compiled again:\n%s", name, text)
			}
		}
		program, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, program)
		for _, pack := range []func([]file, time.Time) ([]byte, error){tarred, zipped} {
			b, err := pack([]file{{name: "nodejoin", mode: 0o755, data: program}}, at)
			if err != nil {
				t.Fatal(err)
			}
			archives = append(archives, b)
		}
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("the agents of two folders differ")
	}
	if !bytes.Equal(archives[0], archives[2]) || !bytes.Equal(archives[1], archives[3]) {
		t.Error("the archives of two folders differ")
	}
	if bytes.Contains(programs[0], []byte(root)) {
		t.Errorf("the agent contains the folder name %s", root)
	}
	info, err := buildinfo.Read(bytes.NewReader(programs[0]))
	if err != nil {
		t.Fatal(err)
	}
	bill, err := spdx(info, "nodejoin_1.0.0_linux_amd64", "v1.0.0", digest(programs[0]), at)
	if err != nil {
		t.Fatal(err)
	}
	var d sbom.Document
	if err := json.Unmarshal(bill, &d); err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if !strings.Contains(string(bill), "pkg:golang/"+m.Path+"@"+m.Version) {
			t.Errorf("the SBOM does not name %s", m.Path)
		}
	}
	if len(d.Packages) != len(info.Deps)+2 || len(d.Relationships) != len(d.Packages) {
		t.Errorf("%d packages and %d relationships for %d modules", len(d.Packages), len(d.Relationships), len(info.Deps))
	}
}

// copySource copies the sources of the agent and appends a text to each Go file.
func copySource(t *testing.T, from, to, end string) {
	t.Helper()
	for _, dir := range []string{"cmd", "steps"} {
		if err := os.CopyFS(filepath.Join(to, dir), os.DirFS(filepath.Join(from, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(to, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(end)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAgentSizes: a release with an agent that is too large, or without one, fails.
func TestAgentSizes(t *testing.T) {
	dir := t.TempDir()
	r := release{wire: 1000}
	if err := r.small(dir); err == nil || !strings.Contains(err.Error(), "go generate") {
		t.Errorf("no agents: %v", err)
	}
	for _, target := range agentbin.Targets {
		goos, _, _ := strings.Cut(target, "/")
		name := filepath.Join(dir, strings.ReplaceAll(target, "/", "-")+agentbin.Carried(goos))
		if err := os.WriteFile(name, make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.small(dir); err != nil {
		t.Error(err)
	}
	large := filepath.Join(dir, "windows-arm64"+agentbin.TGZ)
	if err := os.WriteFile(large, make([]byte, 1001), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.small(dir); err == nil || !strings.Contains(err.Error(), "windows/arm64: 1001 bytes") {
		t.Errorf("an agent that is too large: %v", err)
	}
}

// TestActionsArePinned: workflows name third-party actions by commit, with the version beside it.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	pinned := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, action, ok := strings.Cut(strings.TrimSpace(line), "uses: ")
			if ok && !strings.HasPrefix(action, "./") && !pinned.MatchString(action) {
				t.Errorf("%s: %s", filepath.Base(f), action)
			}
		}
	}
}
