// Command release makes what a release consists of: for each platform the program with its agents in an archive, an
// SBOM of it (SPDX 2.3), and SHA256SUMS over all. The same commit gives the same bytes in every folder.
//
//	go generate ./steps/agentbin
//	go run ./examples/internal/release -version v1.2.3 -o dist
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodejoin/steps/agentbin"
)

func main() {
	r := release{}
	flag.StringVar(&r.version, "version", "dev", "version that the program says")
	flag.StringVar(&r.out, "o", "dist", "folder of the release; it must not exist")
	flag.IntVar(&r.limit, "limit", 60_000_000, "bytes that a program may have")
	flag.IntVar(&r.memory, "memory", 40_000_000, "bytes of memory that a plan of the quickstart may take")
	platforms := flag.String("platforms", strings.Join(agentbin.Targets, " "), "os/arch of each program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.run(ctx, strings.Fields(*platforms))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type release struct {
	version, out string
	limit        int
	memory       int
	time         time.Time // of the commit; what the archives say
}

func (r *release) run(ctx context.Context, platforms []string) error {
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	if err := r.date(ctx); err != nil {
		return err
	}
	sums := map[string]string{}
	for _, p := range platforms {
		goos, arch, _ := strings.Cut(p, "/")
		program, err := r.build(ctx, goos, arch)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if len(program) > r.limit {
			return fmt.Errorf("%s: the program has %d bytes, the limit is %d", p, len(program), r.limit)
		}
		name := "nodejoin_" + strings.TrimPrefix(r.version, "v") + "_" + goos + "_" + arch
		archive, err := r.archive(goos, program)
		if err != nil {
			return err
		}
		info, err := buildinfo.Read(bytes.NewReader(program))
		if err != nil {
			return err
		}
		bill, err := spdx(info, name, r.version, digest(program), r.time)
		if err != nil {
			return err
		}
		for file, b := range map[string][]byte{name + archiveSuffix(goos): archive, name + ".spdx.json": bill} {
			if err := os.WriteFile(filepath.Join(r.out, file), b, 0o644); err != nil {
				return err
			}
			sums[file] = digest(b)
		}
	}
	var text strings.Builder
	for _, file := range sorted(sums) {
		fmt.Fprintf(&text, "%s  %s\n", sums[file], file)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

// date reads SOURCE_DATE_EPOCH (reproducible-builds.org), else the time of the commit.
func (r *release) date(ctx context.Context) error {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return fmt.Errorf("set SOURCE_DATE_EPOCH; the time of the commit is not known: %w", err)
		}
		text = string(out)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	r.time = time.Unix(n, 0).UTC()
	return err
}

// build builds the program. Nothing of the folder or the repository's state goes in.
func (r *release) build(ctx context.Context, goos, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "nodejoin-release-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "nodejoin")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "embedagent",
		"-ldflags", "-s -w -X main.version="+r.version, "-o", out, "nodejoin/cmd/nodejoin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+goos, "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	if err := r.frugal(ctx, goos, arch, out); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

func archiveSuffix(goos string) string {
	if goos == "windows" {
		return ".zip"
	}
	return ".tar.gz"
}

// archive packs the program with what belongs to it.
func (r *release) archive(goos string, program []byte) ([]byte, error) {
	files := []file{{"nodejoin", 0o755, program}}
	if goos == "windows" {
		files[0].name += ".exe"
	}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("run it in the folder of the repository: %w", err)
		}
		files = append(files, file{name, 0o644, b})
	}
	if goos == "windows" {
		return zipped(files, r.time)
	}
	return tarred(files, r.time)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func sorted(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// errJoin closes in order and reports what failed first.
func errJoin(closers ...func() error) error {
	var errs []error
	for _, c := range closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
