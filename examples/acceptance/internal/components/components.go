// Package components builds the real programs that the acceptance tests run: the
// control plane for Linux, the node programs for Windows, and the stand-in DLLs
// for Wine. A program is built once and again only when what it is built from
// has changed.
package components

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Dir is the folder of built components: $NODEJOIN_COMPONENTS, or
// nodejoin-acceptance in the user's cache folder.
func Dir() (string, error) {
	if dir := os.Getenv("NODEJOIN_COMPONENTS"); dir != "" {
		return filepath.Abs(dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for built components: %w; set NODEJOIN_COMPONENTS", err)
	}
	return filepath.Join(cache, "nodejoin-acceptance"), nil
}

// ArtifactsFile has, in a folder for realjoin, the digest of each artifact of the mirror.
const ArtifactsFile = "artifacts.json"

// Set is a folder of built components.
type Set struct {
	Dir string
	src string // examples/acceptance
}

// New is the set in dir, built from the sources below the acceptance module src.
func New(dir, src string) *Set { return &Set{Dir: dir, src: src} }

// Bin is the path of a program, for example Bin("kubelet.exe").
func (s *Set) Bin(name string) string { return filepath.Join(s.Dir, "bin", name) }

// Library is the path of a stand-in DLL or program.
func (s *Set) Library(name string) string { return filepath.Join(s.Dir, "wine", name) }

// Source is the path of a file below examples/acceptance.
func (s *Set) Source(elem ...string) string {
	return filepath.Join(append([]string{s.src}, elem...)...)
}

// Stale lists what is missing or older than its sources, in the order of building.
func (s *Set) Stale() ([]string, error) {
	var stale []string
	for _, b := range s.builds() {
		fresh, err := b.fresh()
		if err != nil {
			return nil, err
		}
		if !fresh {
			stale = append(stale, filepath.Base(b.out))
		}
	}
	return stale, nil
}

// Build makes what Stale lists and writes one line about each to log; with names only those programs, also ones that
// the acceptance tests do not need. Two builds into the same folder wait for one another.
func (s *Set) Build(ctx context.Context, log io.Writer, names ...string) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	unlock, err := Lock(ctx, filepath.Join(s.Dir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	builds := s.builds()
	if len(names) > 0 {
		builds = slices.DeleteFunc(s.programs(slices.Concat(table, linuxNode, windowsControlPlane)),
			func(b build) bool { return !slices.Contains(names, filepath.Base(b.out)) })
	}
	for _, b := range builds {
		fresh, err := b.fresh()
		if err != nil {
			return err
		}
		if fresh {
			continue
		}
		began := time.Now()
		if err := b.run(ctx); err != nil {
			return fmt.Errorf("build %s: %w", filepath.Base(b.out), err)
		}
		fmt.Fprintf(log, "built %-32s %6.1fs\n", filepath.Base(b.out), time.Since(began).Seconds())
	}
	return nil
}

// build makes one file.
type build struct {
	out    string
	stamp  string // digest of the inputs of the last good build
	dir    string
	env    []string
	argv   []string // without the output
	inputs []string // files whose content decides
}

// programs are the builds of programs of other modules.
func (s *Set) programs(list []component) []build {
	var all []build
	for _, c := range list {
		goos := "linux"
		if strings.HasSuffix(c.name, ".exe") {
			goos = "windows"
		}
		dir, cgo := s.Source("components", "modules", c.module), "CGO_ENABLED=0"
		// Always -trimpath: with and without it everything compiles twice.
		argv := []string{"go", "build", "-trimpath", "-ldflags", c.ldflags}
		if tags, ok := partlyC[c.name]; ok {
			cgo, argv = "CGO_ENABLED=1", append(argv, "-tags", tags)
		}
		inputs := []string{filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum")}
		if strings.HasPrefix(c.pkg, "./") {
			own, _ := filepath.Glob(filepath.Join(dir, c.pkg, "*.go")) // the pattern is well-formed
			inputs = append(inputs, own...)
		}
		all = append(all, build{
			out: s.Bin(c.name), stamp: s.stamp(c.name), dir: dir,
			env:    []string{"GOOS=" + goos, "GOARCH=amd64", cgo, "GOFLAGS=", "GOWORK=off"},
			argv:   append(argv, c.pkg),
			inputs: inputs,
		})
	}
	return all
}

func (s *Set) builds() []build {
	all := s.programs(slices.Concat(table, linuxNode))
	for _, name := range helpers {
		inputs, _ := filepath.Glob(s.Source(name, "*.go")) // the pattern is well-formed
		all = append(all, build{
			out: s.Bin(name + ".exe"), stamp: s.stamp(name), dir: s.src,
			env:    []string{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"},
			argv:   []string{"go", "build", "-trimpath", "-ldflags", strip + " -X main.version=v" + Kubernetes, "./" + name},
			inputs: append(inputs, s.Source("go.sum")),
		})
	}
	dir := s.Source("wine")
	for _, l := range libraries {
		inputs, _ := filepath.Glob(filepath.Join(dir, "*.h")) // the pattern is well-formed
		for _, f := range l.sources {
			inputs = append(inputs, filepath.Join(dir, f))
		}
		argv := []string{"x86_64-w64-mingw32-gcc", "-O2", "-s", "-Wall"}
		if strings.HasSuffix(l.name, ".dll") {
			argv = append(argv, "-shared")
		}
		argv = append(argv, l.sources...)
		all = append(all, build{out: s.Library(l.name), stamp: s.stamp(l.name), dir: dir, argv: append(argv, l.libs...),
			inputs: inputs})
	}
	return all
}

func (s *Set) stamp(name string) string { return filepath.Join(s.Dir, "stamps", name) }

// digest covers everything that decides what a build gives.
func (b *build) digest() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), b.argv, b.env)
	for _, name := range b.inputs {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, filepath.Base(name), len(content))
		h.Write(content)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (b *build) fresh() (bool, error) {
	want, err := b.digest()
	if err != nil {
		return false, err
	}
	have, err := os.ReadFile(b.stamp)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(b.out); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	return string(have) == want, nil
}

func (b *build) run(ctx context.Context) error {
	want, err := b.digest()
	if err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(b.out), filepath.Dir(b.stamp)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	part := b.out + ".part"
	argv := append([]string{}, b.argv...)
	argv = append(argv[:2:2], append([]string{"-o", part}, argv[2:]...)...)
	if argv[0] != "go" {
		argv = append(append([]string{}, b.argv...), "-o", part)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), b.env...)
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	// A new file each time: a running test may have hard links of the old one.
	if err := os.Rename(part, b.out); err != nil {
		return err
	}
	return os.WriteFile(b.stamp, []byte(want), 0o644)
}
