// Package agentbin provides the agent for a machine: embedded in a release build (build tag embedagent),
// otherwise built from the module's own source and cached in the user's cache folder.
package agentbin

//go:generate go run ./gen

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Targets are the machines that a release carries agents for, as "os/arch".
var Targets = []string{"linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}

// ErrNoAgent says that no agent is embedded for the machine and none can be built.
var ErrNoAgent = errors.New("no agent for this machine")

// Get returns the agent for a machine as a file and its sha256 in lower-case hex. The file does not change
// while it is used; beside it lies a packed one (PackedSuffix). If it has to be built, that takes as long as the
// Go tool does, bounded by ctx.
func Get(ctx context.Context, os, arch string) (path, sha256 string, err error) {
	if !slices.Contains(Targets, os+"/"+arch) {
		return "", "", fmt.Errorf("%w: %s/%s is not one of %v", ErrNoAgent, os, arch, Targets)
	}
	dir, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	p, err := embedded(os, arch)
	if err == nil {
		path, err = keep(ctx, dir, os, arch, p)
		return path, p.Digest, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	s, err := findSource(dir)
	if err != nil {
		return "", "", fmt.Errorf("%w: none for %s/%s is embedded, and %w", ErrNoAgent, os, arch, err)
	}
	return s.get(ctx, os, arch)
}

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for agents: %w", err)
	}
	return filepath.Join(base, "nodejoin", "agents"), nil
}

// fileName of an agent in the cache contains its digest, so a file of this name never changes.
func fileName(os, arch, digest string) string {
	name := "nodejoin-agent-" + os + "-" + arch + "-" + digest[:16]
	if os == "windows" {
		name += ".exe"
	}
	return name
}

// writeFile writes an executable file, whole or not at all.
func writeFile(path string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Chmod(0o700), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// short is a short name for a path.
func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}
