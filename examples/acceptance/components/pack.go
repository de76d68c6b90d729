package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/mirror"
)

// pack fills a folder for realjoin: a control plane for an operating system, and the artifacts of a Windows node.
func pack(ctx context.Context, set *components.Set, folder, goos string) error {
	controlPlane := components.ControlPlane(goos)
	if err := set.Build(ctx, os.Stderr, slices.Concat(controlPlane, mirror.Components("windows"))...); err != nil {
		return err
	}
	from, artifacts, err := mirror.Make(ctx, set, "windows")
	if err != nil {
		return err
	}
	digests := map[string]string{}
	for name, a := range artifacts {
		digests[name] = a.SHA256
		if err := copyFile(filepath.Join(from, a.File), filepath.Join(folder, "mirror", a.File)); err != nil {
			return err
		}
	}
	for _, name := range controlPlane {
		if err := copyFile(set.Bin(name), filepath.Join(folder, "bin", name)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(digests)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, components.ArtifactsFile), text, 0o644)
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return out.Close()
}
