package planbundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"nodejoin/cmd/nodejoin/internal/registry"
)

// File is a file of a bundle.
type File struct {
	Name   string // as messages name it
	Size   int64
	SHA256 string // lower-case hex
	Open   func() (io.ReadCloser, error)

	role        string // "" = of an image
	title       string
	annotations map[string]string
}

// Contents is what a bundle has.
type Contents struct {
	Config Config
	files  []File
	images []v1.Descriptor
}

// add adds a file with a role.
func (c *Contents) add(role, title string, f File, more map[string]string) {
	f.role, f.title, f.annotations = role, title, more
	c.files = append(c.files, f)
}

// addImage adds an image, by what its name stands for and its parts.
func (c *Contents) addImage(name string, top v1.Descriptor, parts []registry.Blob) {
	c.images = append(c.images, top)
	for _, b := range parts {
		c.files = append(c.files, File{Name: "the image " + name, Size: b.Size, SHA256: b.SHA256, Open: b.Open})
	}
}

// text is a file in memory.
func text(name string, b []byte) File {
	sum := sha256.Sum256(b)
	return File{Name: name, Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:]), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b)), nil
	}}
}

// segment is a piece of the archive. Its bytes are text, or else those of the file.
type segment struct {
	text []byte
	file *File
}

func (s segment) size() int64 {
	if s.file != nil {
		return s.file.Size
	}
	return int64(len(s.text))
}

// segments are the pieces of the archive, in its order: what describes it comes first.
func (c *Contents) segments() (out []segment, err error) {
	top, blobs, err := c.described()
	if err != nil {
		return nil, err
	}
	add := func(name string, size int64, content segment) {
		var h []byte
		if err == nil {
			h, err = head(name, size)
		}
		out = append(out, segment{text: h}, content, segment{text: padding(size)})
	}
	add(layoutFile, int64(len(layoutText)), segment{text: []byte(layoutText)})
	add(indexFile, int64(len(top)), segment{text: top})
	slices.SortStableFunc(blobs, func(a, b File) int { return strings.Compare(a.SHA256, b.SHA256) })
	blobs = slices.CompactFunc(blobs, func(a, b File) bool { return a.SHA256 == b.SHA256 })
	for i := range blobs {
		add(blobName(blobs[i].SHA256), blobs[i].Size, segment{file: &blobs[i]})
	}
	return append(out, segment{text: archiveEnd()}), err
}

// described returns the index, and all blobs.
func (c *Contents) described() (top []byte, blobs []File, err error) {
	config, err := encode(c.Config)
	if err != nil {
		return nil, nil, err
	}
	about := text("its description", config)
	m := manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: artifactType,
		Config: v1.Descriptor{MediaType: describe, Size: about.Size, Digest: digest(about.SHA256)}}
	for _, f := range c.files {
		if f.role == "" {
			continue
		}
		notes := map[string]string{title: f.title}
		maps.Copy(notes, f.annotations)
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.MediaType(f.role), Size: f.Size,
			Digest: digest(f.SHA256), Annotations: notes})
	}
	slices.SortFunc(m.Layers, func(a, b v1.Descriptor) int {
		return strings.Compare(string(a.MediaType)+a.Annotations[title]+a.Digest.Hex,
			string(b.MediaType)+b.Annotations[title]+b.Digest.Hex)
	})
	list, err := encode(m)
	if err != nil {
		return nil, nil, err
	}
	listed := text("its manifest", list)
	i := index{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []descriptor{{MediaType: m.MediaType,
		ArtifactType: artifactType, Size: listed.Size, Digest: digest(listed.SHA256)}}}
	for _, d := range c.images {
		i.Manifests = append(i.Manifests, descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest,
			Annotations: d.Annotations})
	}
	top, err = encode(i)
	return top, append(slices.Clone(c.files), about, listed), err
}

func digest(sha256 string) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: sha256} }
