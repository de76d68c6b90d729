// Command release makes what a release consists of: for each platform the program with its agents in an archive, an
// SBOM of it (SPDX 2.3), with -image a container image of its Linux platforms, and SHA256SUMS over all. The same
// commit gives the same bytes in every folder.
//
//	go generate ./steps/agentbin
//	go run ./examples/internal/release -version v1.2.3 -o dist -image
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"nodejoin/steps/agentbin"
)

func main() {
	r := release{}
	flag.StringVar(&r.version, "version", "dev", "version that the program says")
	flag.StringVar(&r.out, "o", "dist", "folder of the release; it must not exist")
	flag.IntVar(&r.limit, "limit", 60_000_000, "bytes that a program may have")
	flag.IntVar(&r.memory, "memory", 16_000_000, "bytes of memory that a plan of one host may take, without the pages "+
		"of the program's file")
	flag.IntVar(&r.wire, "wire", 4_500_000, "bytes that a packed agent may have")
	flag.BoolVar(&r.image, "image", false, "also make a container image: an OCI layout in a tar file")
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
	wire         int
	image        bool
	time         time.Time // of the commit; what the archives say
}

func (r *release) run(ctx context.Context, platforms []string) error {
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	if err := r.date(ctx); err != nil {
		return err
	}
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return fmt.Errorf("run it in the folder of the repository: %w", err)
	}
	if err := r.small(filepath.Join("steps", "agentbin", "bin")); err != nil {
		return err
	}
	files, images := map[string][]byte{}, map[string]v1.Image{}
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
		if err := r.builtWith(info.GoVersion, string(text)); err != nil {
			return err
		}
		bill, err := spdx(info, name, r.version, digest(program), r.time)
		if err != nil {
			return err
		}
		files[name+archiveSuffix(goos)], files[name+".spdx.json"] = archive, bill
		if r.image && goos == "linux" {
			if images[p], err = image(program, goos, arch, r.version, r.time); err != nil {
				return err
			}
		}
	}
	if len(images) > 0 {
		b, err := imageArchive(images, r.time)
		if err != nil {
			return fmt.Errorf("image: %w", err)
		}
		files["nodejoin_"+strings.TrimPrefix(r.version, "v")+"_image.tar"] = b
	}
	return r.write(files)
}

// small checks what each agent takes on its way to a machine.
func (r *release) small(dir string) error {
	for _, target := range agentbin.Targets {
		goos, _, _ := strings.Cut(target, "/")
		name := strings.ReplaceAll(target, "/", "-") + agentbin.Carried(goos)
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("run go generate ./steps/agentbin first: %w", err)
		}
		if info.Size() > int64(r.wire) {
			return fmt.Errorf("agent for %s: %d bytes are sent to a machine, the limit is %d", target, info.Size(), r.wire)
		}
	}
	return nil
}

// write writes the files of the release, and SHA256SUMS.
func (r *release) write(files map[string][]byte) error {
	var sums bytes.Buffer
	for _, name := range sorted(files) {
		if err := os.WriteFile(filepath.Join(r.out, name), files[name], 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", digest(files[name]), name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), sums.Bytes(), 0o644)
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

// seldom are packages in which a run spends little time. Nothing is inlined in them: that makes a program 2 MB
// smaller (windows/amd64, Go 1.26).
var seldom = []string{"k8s.io", "sigs.k8s.io", "google.golang.org", "github.com/google", "github.com/prometheus",
	"github.com/spf13", "github.com/charmbracelet", "charm.land", "github.com/vishvananda", "github.com/godbus",
	"github.com/jcmturner", "github.com/docker", "github.com/opencontainers", "golang.org/x/oauth2",
	"golang.org/x/text", "golang.org/x/net", "nodejoin/plan/render", "nodejoin/plan/rule", "nodejoin/steps/cluster",
	"nodejoin/steps/doctor", "nodejoin/steps/executor", "nodejoin/steps/generalize", "nodejoin/steps/host",
	"nodejoin/steps/kinds", "nodejoin/steps/kube", "nodejoin/steps/preflight", "nodejoin/steps/verify",
	"nodejoin/cmd", "go"}

// build builds the program. Nothing of the folder or the repository's state goes in.
func (r *release) build(ctx context.Context, goos, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "nodejoin-release-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "nodejoin")
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", "embedagent",
		"-ldflags", "-s -w -X main.version=" + r.version, "-o", out}
	for _, module := range seldom {
		args = append(args, "-gcflags="+module+"/...=-l")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "nodejoin/cmd/nodejoin")...)
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
	files := []file{{name: "nodejoin", mode: 0o755, data: program}}
	if goos == "windows" {
		files[0].name += ".exe"
	}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("run it in the folder of the repository: %w", err)
		}
		files = append(files, file{name: name, mode: 0o644, data: b})
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
