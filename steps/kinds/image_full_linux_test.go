package kinds_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/host/linux"
	"nodejoin/steps/kinds"
)

// imported is this machine, whose runtime has an image once its import was a success.
type imported struct {
	host.Host
	err error // of a pull
}

func (i imported) Image(context.Context, string, string) (*host.Image, error) {
	return &host.Image{}, nil
}

func (i imported) PullImage(context.Context, string, string) error { return i.err }

// bytesOf is the only artifact.
type bytesOf struct {
	steps.Artifacts
	content []byte
}

func (b bytesOf) Open(context.Context, steps.Source) (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(b.content)), int64(len(b.content)), nil
}

// TestImageFullDisk: an image for which the machine or its runtime has no room is one error that says so, and nothing
// of it is left. Once there is room, it is imported.
func TestImageFullDisk(t *testing.T) {
	volume := t.TempDir()
	if err := syscall.Mount("none", volume, "tmpfs", 0, "mode=755,size=8m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("no volume can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(volume, 0); err != nil {
			t.Error(err)
		}
	})
	data := filepath.Join(volume, "nodejoin")
	h, err := linux.New(linux.Options{DataDir: data})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Mkdir(t.Context(), data, host.AccessPrivate); err != nil {
		t.Fatal(err)
	}
	rest := filepath.Join(volume, "rest")
	ctr := filepath.Join(t.TempDir(), "ctr")
	for name, c := range map[string]struct {
		size      int
		ctr, want string
	}{
		"the archive":           {12 << 20, "exit 0", "image.tar"},
		"the runtime elsewhere": {4 << 20, "echo 'ctr: write /x: no space left on device' >&2; exit 1", "ctr: write /x"},
		"the runtime, same disk": {4 << 20, "cat /dev/zero >" + rest + " 2>/dev/null; echo 'ctr: no space' >&2; exit 1",
			"ended with exit code 1"},
		"the runtime on Windows": {1 << 20, "echo 'There is not enough space on the disk.' >&2; exit 1", "enough space"},
	} {
		content := bytes.Repeat([]byte("layer..."), c.size/8)
		sum := sha256.Sum256(content)
		e := &steps.Env{Artifacts: bytesOf{content: content}, Progress: func(event.StepProgress) {},
			Facts: host.Facts{OS: "linux", DataDir: data}}
		image := &kinds.Image{Address: "/run/c.sock", Image: "registry.example/app:1", File: "app.tar", Program: ctr,
			SHA256: hex.EncodeToString(sum[:])}
		apply := func(does string) error {
			if err := os.WriteFile(ctr, []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := image.Apply(t.Context(), imported{Host: h}, e, steps.Change{})
			return err
		}
		full := steps.AsError(apply(c.ctr))
		if full == nil || full.Code != steps.CodeNoSpace || full.Summary != "disk full" || full.Remedy == "" ||
			!strings.Contains(full.Detail, c.want) {
			t.Errorf("%s: %+v, want a full disk", name, full)
		}
		if err := os.Remove(rest); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
			t.Errorf("%s: it left %v, %v", name, left, err)
		}
		if c.size < 8<<20 {
			if err := apply("exit 0"); err != nil {
				t.Errorf("%s, with room: %v", name, err)
			}
		}
	}
	pull := &kinds.Image{Address: "/run/c.sock", Image: "registry.example/app:1"}
	_, err = pull.Apply(t.Context(), imported{err: &host.PullError{Image: pull.Image,
		Message: "failed to extract layer: write /x: no space left on device"}}, nil, steps.Change{})
	if full := steps.AsError(err); full.Code != steps.CodeNoSpace || !strings.Contains(full.Detail, "extract layer") {
		t.Errorf("a pull: %+v, want a full disk", full)
	}
}
