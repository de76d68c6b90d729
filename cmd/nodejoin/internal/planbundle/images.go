package planbundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"nodejoin/cmd/nodejoin/internal/registry"
)

// archiveOf is an image of a bundle for one system, as nodes import it.
type archiveOf struct {
	Name   string `json:"name"` // as the plan names it
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	File   string `json:"file"` // in the folder
	SHA256 string `json:"sha256"`
}

// imager makes the archives that nodes import.
type imager struct {
	from   string // folder of the blobs, each named by its digest
	bundle string
	to     string
	only   bool // nothing is written
}

// platform is an OS and architecture, with the blobs that an image has for it.
type platform struct {
	os, arch string
	blobs    []File
}

// all makes an archive for each image and system.
func (m *imager) all(images []descriptor) (out []archiveOf, err error) {
	if err := os.MkdirAll(m.to, 0o700); err != nil {
		return nil, err
	}
	for _, d := range images {
		list, err := m.platforms(d)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			a := archiveOf{Name: d.Annotations["io.containerd.image.name"], OS: p.os, Arch: p.arch,
				File: fmt.Sprintf("%d.tar", len(out)+1)}
			if a.SHA256, err = m.write(filepath.Join(m.to, a.File), d, p.blobs); err != nil {
				return nil, err
			}
			out = append(out, a)
		}
	}
	return out, nil
}

// blob is a blob of the bundle as a file.
func (m *imager) blob(d v1.Hash, size int64) File {
	at := filepath.Join(m.from, d.Hex)
	return File{Name: d.String(), Size: size, SHA256: d.Hex, Open: func() (io.ReadCloser, error) { return os.Open(at) }}
}

// read reads what describes an image.
func (m *imager) read(d v1.Hash, into any) error {
	b, err := os.ReadFile(filepath.Join(m.from, d.Hex))
	if errors.Is(err, fs.ErrNotExist) {
		return &DamagedError{m.bundle, "the blob " + d.Hex + " of an image is not in it"}
	}
	if err == nil && json.Unmarshal(b, into) != nil {
		err = &DamagedError{m.bundle, "the blob " + d.Hex + " of an image cannot be read"}
	}
	return err
}

// platforms are the systems that the bundle has an image for.
func (m *imager) platforms(top descriptor) (out []*platform, err error) {
	manifests, base := []v1.Descriptor{{Digest: top.Digest}}, []File{}
	if top.MediaType.IsIndex() {
		var list v1.IndexManifest
		if err := m.read(top.Digest, &list); err != nil {
			return nil, err
		}
		manifests, base = nil, append(base, m.blob(top.Digest, top.Size))
		for _, d := range list.Manifests {
			if _, err := os.Stat(filepath.Join(m.from, d.Digest.Hex)); err == nil {
				manifests = append(manifests, d)
			}
		}
	}
	if len(manifests) == 0 {
		return nil, &DamagedError{m.bundle, "the image " + top.Digest.String() + " is not in it"}
	}
	for _, d := range manifests {
		parts, config, err := m.parts(d.Digest)
		if err != nil {
			return nil, err
		}
		os, arch := config.OS, config.Architecture
		if d.Platform != nil { // what nodes choose by
			os, arch = d.Platform.OS, d.Platform.Architecture
		}
		p := find(out, os, arch)
		if p == nil {
			p = &platform{os, arch, base}
			out = append(out, p)
		}
		p.blobs = append(p.blobs[:len(p.blobs):len(p.blobs)], parts...)
	}
	return out, nil
}

func find(list []*platform, os, arch string) *platform {
	for _, p := range list {
		if p.os == os && p.arch == arch {
			return p
		}
	}
	return nil
}

// parts are the manifest, the configuration and the layers of an image.
func (m *imager) parts(d v1.Hash) (out []File, config v1.ConfigFile, err error) {
	var list v1.Manifest
	if err := m.read(d, &list); err != nil {
		return nil, config, err
	}
	if err := m.read(list.Config.Digest, &config); err != nil {
		return nil, config, err
	}
	fi, err := os.Stat(filepath.Join(m.from, d.Hex))
	if err != nil {
		return nil, config, err
	}
	out = []File{m.blob(d, fi.Size()), m.blob(list.Config.Digest, list.Config.Size)}
	for _, l := range list.Layers {
		if _, err := os.Stat(filepath.Join(m.from, l.Digest.Hex)); err != nil {
			return nil, config, &DamagedError{m.bundle, "the layer " + l.Digest.Hex + " of an image is not in it"}
		}
		out = append(out, m.blob(l.Digest, l.Size))
	}
	return out, config, nil
}

// write writes an archive with one image. It returns its sha256.
func (m *imager) write(to string, top descriptor, blobs []File) (sum string, err error) {
	if m.only {
		return top.Digest.Hex, nil
	}
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	h := newHashing(w)
	list, err := encode(index{SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json",
		Manifests: []descriptor{top}})
	if err != nil {
		return "", err
	}
	written := map[string]bool{}
	for _, f := range append([]File{text(layoutFile, []byte(layoutText)), text(indexFile, list)}, blobs...) {
		at := f.Name
		if f.Name != layoutFile && f.Name != indexFile {
			at = blobName(f.SHA256)
		}
		if written[at] {
			continue
		}
		written[at] = true
		if err := writeEntry(h, at, f); err != nil {
			return "", err
		}
	}
	if _, err := h.Write(archiveEnd()); err != nil {
		return "", err
	}
	return h.hex(), w.Sync()
}

// writeEntry writes a file into an archive.
func writeEntry(w io.Writer, name string, f File) error {
	header, err := head(name, f.Size)
	if err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	if _, err := w.Write(header); err != nil {
		return err
	}
	if n, err := io.Copy(w, r); err != nil || n != f.Size {
		return errors.Join(err, fmt.Errorf("%s has %d bytes, not %d", f.Name, n, f.Size))
	}
	_, err = w.Write(padding(f.Size))
	return err
}

// fullName is the name of an image as its registry has it.
func fullName(image string) string {
	ref, err := name.ParseReference(image)
	if err != nil {
		return image
	}
	return registry.FullName(ref)
}
