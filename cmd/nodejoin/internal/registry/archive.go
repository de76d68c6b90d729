package registry

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"nodejoin/steps"
)

// Archive is the file of an OCI artifact.
type Archive struct {
	Name   string // as its title or its media type says how it is packed
	SHA256 string // of the file, as the artifact's manifest has it
	Open   func() (io.ReadCloser, error)
}

// packings are how archives are packed, by the end of their media types: those of 'oras push', of OpenTofu's modules
// ("archive/zip", opentofu.org/docs/cli/oci_registries/module-package) and of image layers.
var packings = [][2]string{{"/zip", ".zip"}, {"+zip", ".zip"}, {"tar+gzip", ".tar.gz"}, {"tar.gzip", ".tar.gz"},
	{"tar", ".tar"}}

// Digest is the sha256 of the manifest that a tag stands for now; artifact is REGISTRY/REPOSITORY:TAG.
func (c *Client) Digest(ctx context.Context, artifact string) (sha256 string, err error) {
	ref, err := name.NewTag(artifact, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("%q is not an artifact with its tag: %w", artifact, err)
	}
	d, err := remote.Get(ref, c.options(ctx)...) // its bytes have the digest, which an answer to HEAD only claims
	if err != nil {
		return "", explain(ref, err)
	}
	return d.Digest.Hex, nil
}

// Archive finds the one file of an artifact. The digest is that of the artifact's manifest, which is verified.
func (c *Client) Archive(ctx context.Context, repository, sha256 string) (a Archive, err error) {
	ref, err := name.NewDigest(repository + "@sha256:" + sha256)
	if err != nil {
		return a, fmt.Errorf("%q is not a repository of a registry: %w", repository, err)
	}
	image, err := remote.Image(ref, c.options(ctx)...)
	if err != nil {
		return a, explain(ref, err)
	}
	m, err := image.Manifest()
	if err != nil {
		return a, explain(ref, err)
	}
	if len(m.Layers) != 1 {
		return a, fmt.Errorf("the artifact %s has %d files, and a module is one archive", ref.Name(), len(m.Layers))
	}
	l := m.Layers[0]
	if a.Name = archiveName(l); a.Name == "" {
		return a, fmt.Errorf("the artifact %s has a file of the type %s, which is not one of archives", ref.Name(),
			l.MediaType)
	}
	a.SHA256 = l.Digest.Hex
	a.Open = func() (io.ReadCloser, error) {
		blob, err := image.LayerByDigest(l.Digest)
		if err != nil {
			return nil, explain(ref, err)
		}
		return blob.Compressed()
	}
	return a, nil
}

// archiveName is the name of a file that is an archive; "" = it is not known as one.
func archiveName(l v1.Descriptor) string {
	for _, p := range packings {
		if strings.HasSuffix(string(l.MediaType), p[0]) {
			return "module" + p[1]
		}
	}
	if title := l.Annotations[titleKey]; steps.IsArchive(title) {
		return title
	}
	return ""
}
