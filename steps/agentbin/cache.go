package agentbin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

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
