package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"nodejoin/plan/lock"
)

// Blob is a part of an image: its index, a manifest, a configuration, a layer.
type Blob struct {
	SHA256 string // lower-case hex
	Size   int64
	Open   func() (io.ReadCloser, error)
}

// Parts is what an image consists of, by the digests of the lock: top describes what its name stands for, an index or
// a manifest. Entries are those of one name; of an index only what is for their platforms is returned.
func (c *Client) Parts(ctx context.Context, entries []lock.Image) (top v1.Descriptor, blobs []Blob, err error) {
	ref, err := name.ParseReference(entries[0].Name)
	if err != nil {
		return top, nil, fmt.Errorf("%q is not the name of an image: %w", entries[0].Name, err)
	}
	if entries[0].Index != "" {
		d, err := remote.Get(ref.Context().Digest(entries[0].Index), c.options(ctx)...)
		if err != nil {
			return top, nil, explain(ref, err)
		}
		top, blobs = d.Descriptor, append(blobs, inMemory(d.Digest, d.Manifest))
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if seen[e.Digest] {
			continue
		}
		seen[e.Digest] = true
		d, err := remote.Get(ref.Context().Digest(e.Digest), c.options(ctx)...)
		if err != nil {
			return top, nil, explain(ref, err)
		}
		if entries[0].Index == "" {
			top = d.Descriptor
		}
		image, err := d.Image()
		if err != nil {
			return top, nil, explain(ref, err)
		}
		more, err := partsOf(image)
		if err != nil {
			return top, nil, explain(ref, err)
		}
		blobs = append(append(blobs, inMemory(d.Digest, d.Manifest)), more...)
	}
	top.Platform, top.Annotations = nil, map[string]string{"io.containerd.image.name": FullName(ref),
		"org.opencontainers.image.ref.name": ref.Identifier()}
	return top, blobs, nil
}

// partsOf are the configuration and the layers of an image.
func partsOf(image v1.Image) ([]Blob, error) {
	m, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	out := []Blob{inMemory(m.Config.Digest, config)}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for i, l := range layers {
		out = append(out, Blob{m.Layers[i].Digest.Hex, m.Layers[i].Size, l.Compressed})
	}
	return out, nil
}

func inMemory(digest v1.Hash, text []byte) Blob {
	return Blob{digest.Hex, int64(len(text)), func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	}}
}

// FullName is the name of an image as containerd has it.
func FullName(ref name.Reference) string {
	full := ref.Name()
	if rest, ok := strings.CutPrefix(full, name.DefaultRegistry+"/"); ok {
		return "docker.io/" + rest
	}
	return full
}
