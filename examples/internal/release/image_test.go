package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"nodejoin/steps/host/hosttest"
)

// TestImage: the image is an OCI layout that the library accepts, and each build gives the same one. Its program runs
// in its file system as its user.
func TestImage(t *testing.T) {
	hosttest.Release(t)
	at := time.Unix(1_700_000_000, 0).UTC()
	program := filepath.Join(t.TempDir(), "nodejoin")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version=v1.2.3", "-o", program, "nodejoin/cmd/nodejoin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=linux")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var archives [][]byte
	for range 2 {
		images := map[string]v1.Image{}
		for arch, program := range map[string][]byte{runtime.GOARCH: data, "riscv64": []byte("another")} {
			img, err := image(program, "linux", arch, "v1.2.3", at)
			if err != nil {
				t.Fatal(err)
			}
			images["linux/"+arch] = img
		}
		b, err := imageArchive(images, at)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, b)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two images of the same program differ")
	}

	dir := t.TempDir()
	unpack(t, bytes.NewReader(archives[0]), dir)
	l, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := l.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	img := imageFor(t, top, runtime.GOARCH)
	imageFor(t, top, "riscv64")
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.Config.User != "65532:65532" || len(c.RootFS.DiffIDs) != 1 || !c.Created.Equal(at) || c.OS != "linux" {
		t.Errorf("%+v", c)
	}
	rootfs := t.TempDir()
	content := mutate.Extract(img)
	unpack(t, content, rootfs)
	if err := content.Close(); err != nil {
		t.Error(err)
	}
	certs, err := os.ReadFile(filepath.Join(rootfs, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for block, rest := pem.Decode(certs); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err != nil || !c.IsCA {
			t.Errorf("certificate %d: %v", n, err)
		}
		n++
	}
	if n < 50 {
		t.Errorf("%d certificate authorities", n)
	}
	runImage(t, rootfs, c.Config)
}

// TestImageArchiveEnds: the tar file ends with two blocks of zeros, as POSIX requires, so every tar reads it.
func TestImageArchiveEnds(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	img, err := image([]byte("program"), "linux", "amd64", "v1.2.3", at)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := imageArchive(map[string]v1.Image{"linux/amd64": img}, at)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive)%512 != 0 || !bytes.HasSuffix(archive, make([]byte, 1024)) {
		t.Errorf("%d bytes, which end in %q", len(archive), archive[len(archive)-40:])
	}
}

// imageFor returns the image for a Linux architecture.
func imageFor(t *testing.T, top v1.ImageIndex, arch string) v1.Image {
	t.Helper()
	m, err := top.IndexManifest()
	if err != nil || len(m.Manifests) != 1 {
		t.Fatalf("%v, %v", m, err)
	}
	index, err := top.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Manifests {
		if d.Platform.OS == "linux" && d.Platform.Architecture == arch {
			img, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return img
		}
	}
	t.Fatalf("no image for %s in %v", arch, m.Manifests)
	return nil
}

// unpack writes the files of a tar file, with their modes and, as root, owners.
func unpack(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, 0o755)
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, b, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if os.Getuid() == 0 {
			err = os.Chown(path, h.Uid, h.Gid)
		}
		if err := errors.Join(err, os.Chmod(path, h.FileInfo().Mode())); err != nil {
			t.Fatal(err)
		}
	}
}
