package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// ArtifactType is that of an artifact of a node, as its manifest in a registry says.
const ArtifactType = "application/vnd.nodejoin.artifact.v1"

const (
	emptyType = "application/vnd.oci.empty.v1+json" // OCI image-spec 1.1, manifest.md, "guidance for an empty descriptor"
	fileType  = "application/octet-stream"
	titleKey  = "org.opencontainers.image.title"
)

// Artifact is a file in a repository.
type Artifact struct {
	Tag, Title string
	Size       int64
	SHA256     string
}

// State of an artifact in a repository.
type State int

// The states.
const (
	Missing State = iota
	Other         // the tag is of something else
	There
)

// Repository is one repository of a registry.
type Repository struct {
	client *Client
	repo   name.Repository
}

// Repository returns that of an address: registry.example/nodejoin.
func (c *Client) Repository(address string) (*Repository, error) {
	repo, err := name.NewRepository(address, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("%q is not a repository of a registry: %w", address, err)
	}
	return &Repository{c, repo}, nil
}

// manifest is that of an artifact: the same bytes for the same artifact.
type manifest struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	ArtifactType  string          `json:"artifactType"`
	Config        v1.Descriptor   `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
}

// described is a manifest that can be put.
type described []byte

func (d described) RawManifest() ([]byte, error)        { return d, nil }
func (d described) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// manifest returns the manifest of an artifact, and its configuration, which is empty.
func (a Artifact) manifest() (described, v1.Layer, error) {
	config := static.NewLayer([]byte("{}"), emptyType)
	digest, err := config.Digest()
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(manifest{2, types.OCIManifestSchema1, ArtifactType,
		v1.Descriptor{MediaType: emptyType, Digest: digest, Size: 2},
		[]v1.Descriptor{{MediaType: fileType, Digest: v1.Hash{Algorithm: "sha256", Hex: a.SHA256}, Size: a.Size,
			Annotations: map[string]string{titleKey: a.Title}}}})
	return text, config, err
}

// Digest is that of the manifest, in hex.
func (a Artifact) Digest() (string, error) {
	text, _, err := a.manifest()
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// Check reports whether a repository has an artifact under its tag, as far as the registry says.
func (r *Repository) Check(ctx context.Context, a Artifact) (State, error) {
	want, _, err := a.manifest()
	if err != nil {
		return Missing, err
	}
	ref := r.repo.Tag(a.Tag)
	have, err := remote.Get(ref, r.client.options(ctx)...)
	if absent(err) {
		return Missing, nil
	}
	if err != nil {
		return Missing, explain(ref, err)
	}
	if string(have.Manifest) != string(want) {
		return Other, nil
	}
	blob, err := remote.Layer(r.repo.Digest("sha256:"+a.SHA256), r.client.options(ctx)...)
	if err != nil {
		return Missing, explain(ref, err)
	}
	n, err := blob.Size()
	switch {
	case absent(err):
		return Missing, nil
	case err != nil:
		return Missing, explain(ref, err)
	case n != a.Size:
		return Other, nil
	}
	return There, nil
}

func absent(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// Write puts an artifact into a repository: its bytes first, then what refers to them. open may be called more than
// once.
func (r *Repository) Write(ctx context.Context, a Artifact, open func() (io.ReadCloser, error)) error {
	text, config, err := a.manifest()
	if err != nil {
		return err
	}
	ref := r.repo.Tag(a.Tag)
	for _, l := range []v1.Layer{&file{a, open}, config} {
		if err := remote.WriteLayer(r.repo, l, r.client.options(ctx)...); err != nil {
			return explain(ref, err)
		}
	}
	if err := remote.Put(ref, text, r.client.options(ctx)...); err != nil {
		return explain(ref, err)
	}
	return nil
}

// file is an artifact as a layer.
type file struct {
	a    Artifact
	open func() (io.ReadCloser, error)
}

func (f *file) Digest() (v1.Hash, error)             { return v1.Hash{Algorithm: "sha256", Hex: f.a.SHA256}, nil }
func (f *file) DiffID() (v1.Hash, error)             { return f.Digest() }
func (f *file) Compressed() (io.ReadCloser, error)   { return f.open() }
func (f *file) Uncompressed() (io.ReadCloser, error) { return f.open() }
func (f *file) Size() (int64, error)                 { return f.a.Size, nil }
func (f *file) MediaType() (types.MediaType, error)  { return fileType, nil }
