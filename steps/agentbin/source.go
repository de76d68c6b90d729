//go:build !embedagent

package agentbin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// module is this module's path, agentPackage the agent's package in it.
const (
	module       = "nodejoin"
	agentPackage = "./cmd/nodejoin-agent"
)

// source is the module's source on this machine.
type source struct {
	root  string // folder of go.mod
	cache string
}

// findSource is the source that this program was compiled from, and no other: a module that
// lies around the working folder or the program may be somebody else's, and its agent would
// run as an administrator of the hosts. A program built with -trimpath does not know its source.
func findSource(cache string) (source, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return source{}, errors.New("this nodejoin was built with -trimpath, so it does not know its own source; " +
			"use a release of nodejoin, or build it without -trimpath")
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(file))) // of steps/agentbin/source.go
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if first, _, _ := strings.Cut(string(b), "\n"); err != nil || strings.TrimSpace(first) != "module "+module {
		return source{}, fmt.Errorf("the source that this nodejoin was built from is no longer in %s; "+
			"use a release of nodejoin, or build it again", root)
	}
	return source{root: root, cache: cache}, nil
}

// manifest records which source files an agent was built from. It is validated by the files' sizes and times
// alone.
type manifest struct {
	Go     string            `json:"go"` // version that nodejoin itself was built with
	Files  map[string]string `json:"files"`
	Dirs   []string          `json:"dirs"`  // folders of the packages that go in, relative to the root
	Extra  []string          `json:"extra"` // files outside of the Go files of Dirs: go.mod, go.sum, embedded ones
	Agent  string            `json:"agent"` // file name in the cache
	Stamp  string            `json:"stamp"` // of the agent's file
	Digest string            `json:"digest"`
}

func (s source) get(ctx context.Context, goos, goarch string) (path, digest string, err error) {
	name := filepath.Join(s.cache, fmt.Sprintf("source-%s-%s-%s.json", goos, goarch, short(s.root)))
	if m, ok := s.fresh(name); ok {
		return filepath.Join(s.cache, m.Agent), m.Digest, nil
	}
	if err := os.MkdirAll(s.cache, 0o700); err != nil {
		return "", "", Unusable(s.cache, err)
	}
	// One build at a time; the others use its result.
	l := flock.New(name + ".lock")
	switch _, err := l.TryLockContext(ctx, 50*time.Millisecond); {
	case errors.As(err, new(*fs.PathError)):
		return "", "", Unusable(s.cache, err)
	case err != nil:
		return "", "", fmt.Errorf("wait for another build of the agent: %w", err)
	}
	defer func() { _ = l.Unlock() }()
	if m, ok := s.fresh(name); ok {
		return filepath.Join(s.cache, m.Agent), m.Digest, nil
	}
	return s.build(ctx, goos, goarch, name)
}

// fresh reads the manifest and reports whether the files are unchanged.
func (s source) fresh(name string) (manifest, bool) {
	var m manifest
	b, err := os.ReadFile(name)
	if err != nil || json.Unmarshal(b, &m) != nil || m.Go != runtime.Version() || m.Digest == "" {
		return m, false
	}
	agent, err := stamp(filepath.Join(s.cache, m.Agent))
	if err != nil || agent != m.Stamp {
		return m, false
	}
	files, err := s.stamps(m.Dirs, m.Extra)
	if err != nil || len(files) != len(m.Files) {
		return m, false
	}
	for f, st := range files {
		if m.Files[f] != st {
			return m, false
		}
	}
	return m, true
}

// stamp distinguishes versions of a file without reading it.
func stamp(path string) (string, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d", fi.Size(), fi.ModTime().UnixNano()), nil
}

// stamps of all source files of the folders, and of the extra files.
func (s source) stamps(dirs, extra []string) (map[string]string, error) {
	out := map[string]string{}
	add := func(rel string) error {
		st, err := stamp(filepath.Join(s.root, rel))
		if errors.Is(err, fs.ErrNotExist) {
			st, err = "absent", nil
		}
		out[rel] = st
		return err
	}
	for _, d := range dirs {
		list, err := os.ReadDir(filepath.Join(s.root, d))
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			n := e.Name()
			if e.IsDir() || strings.HasSuffix(n, "_test.go") ||
				!slices.Contains([]string{".go", ".s", ".h", ".c", ".syso"}, filepath.Ext(n)) {
				continue
			}
			if err := add(filepath.Join(d, n)); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range extra {
		if err := add(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// build builds the agent and its manifest. The stamps are taken before the build: if a file is edited
// meanwhile, the next Get builds again.
func (s source) build(ctx context.Context, goos, goarch, name string) (path, digest string, err error) {
	tool, err := goTool()
	if err != nil {
		return "", "", fmt.Errorf("%w: none for %s/%s is embedded, and %w", ErrNoAgent, goos, goarch, err)
	}
	m := manifest{Go: runtime.Version()}
	if m.Dirs, m.Extra, err = s.inputs(ctx, tool, goos, goarch); err != nil {
		return "", "", err
	}
	if m.Files, err = s.stamps(m.Dirs, m.Extra); err != nil {
		return "", "", err
	}
	dir := name + ".build" // a build that was killed may have left it
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return "", "", Unusable(s.cache, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "agent")
	// No VCS stamp: the digest must not change with every commit elsewhere.
	if _, err := s.run(ctx, tool, goos, goarch, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", out,
		agentPackage); err != nil {
		return "", "", err
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return "", "", Unusable(s.cache, err)
	}
	p, err := Pack(Carried(goos), b)
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(s.cache, fileName(goos, goarch, p.Digest))
	if err = keepPacked(path, p); err != nil {
		return "", "", err
	}
	if err = Unpack(path, p.Digest); err != nil {
		return "", "", err
	}
	m.Agent, m.Digest = filepath.Base(path), p.Digest
	if m.Stamp, err = stamp(path); err != nil {
		return "", "", Unusable(s.cache, err)
	}
	j, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return "", "", err
	}
	s.sweep(goos, goarch, m.Agent)
	return path, p.Digest, put(name, func() bool { return false }, bytes.NewReader(j))
}

// keepFor is how long agents of earlier source are kept; a run may still be using one.
const keepFor = 24 * time.Hour

func (s source) sweep(goos, goarch, current string) {
	old, _ := filepath.Glob(filepath.Join(s.cache, "nodejoin-agent-"+goos+"-"+goarch+"-*"))
	for _, f := range old {
		fi, err := os.Stat(f)
		if err == nil && !strings.HasPrefix(filepath.Base(f), current) && time.Since(fi.ModTime()) > keepFor {
			_ = os.Remove(f)
		}
	}
}

// inputs asks the Go tool what the agent is built from: the folders of this module's packages, and files
// other than their Go files.
func (s source) inputs(ctx context.Context, tool, goos, goarch string) (dirs, extra []string, err error) {
	out, err := s.run(ctx, tool, goos, goarch, "list", "-deps", "-json=Dir,Standard,Module,EmbedFiles", agentPackage)
	if err != nil {
		return nil, nil, err
	}
	extra = []string{"go.mod", "go.sum"}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct {
			Dir        string
			Standard   bool
			Module     *struct{ Main bool }
			EmbedFiles []string
		}
		if err := d.Decode(&p); err != nil {
			return nil, nil, fmt.Errorf("go list: %w", err)
		}
		if p.Module == nil || !p.Module.Main {
			continue // go.sum covers their content
		}
		rel, err := filepath.Rel(s.root, p.Dir)
		if err != nil {
			return nil, nil, err
		}
		dirs = append(dirs, rel)
		for _, f := range p.EmbedFiles {
			extra = append(extra, filepath.Join(rel, f))
		}
	}
	return dirs, extra, nil
}

// run runs the Go tool in the module for a target.
func (s source) run(ctx context.Context, tool, goos, goarch string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=", "GOWORK=off")
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	text := strings.TrimSpace(stderr.String())
	if len(text) > maxText {
		text = "..." + text[len(text)-maxText:]
	}
	return nil, fmt.Errorf("build the agent for %s/%s in %s: go %s: %w\n%s", goos, goarch, s.root, args[0], err, text)
}

// maxText bounds the shown output of the Go tool, in bytes.
const maxText = 2000

// goTool finds the Go tool.
func goTool() (string, error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("the Go tool to build it with is not on this machine: %w", err)
	}
	return tool, nil
}
