package fleet

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"nodejoin/cmd/nodejoin/internal/registry"
	"nodejoin/steps/artifact"
)

// mostImage bounds the files of a plan in a registry, in bytes. The archive of a module has the same bound.
const mostImage = 60 << 20

// PlanImage is the plan as an OCI artifact with one archive: the same bytes for the same files.
type PlanImage struct {
	Repository string // registry.example/plans/prod
	SHA256     string // of its manifest
	artifact   registry.Artifact
	data       []byte
}

// newPlanImage packs the files for a repository, oci://registry.example/plans/prod.
func newPlanImage(address string, files []File) (*PlanImage, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: f.Path, Size: int64(len(f.Data)), Mode: 0o644, Typeflag: tar.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b.Bytes())
	digest := hex.EncodeToString(sum[:])
	p := &PlanImage{Repository: strings.TrimPrefix(address, artifact.OCIScheme), data: b.Bytes(),
		artifact: registry.Artifact{Tag: "plan-" + digest[:12], Title: "plan.tar.gz", Size: int64(b.Len()), SHA256: digest}}
	var err error
	p.SHA256, err = p.artifact.Digest()
	return p, err
}

// Address is that of the artifact, with its digest.
func (p *PlanImage) Address() string {
	return artifact.OCIScheme + p.Repository + "@sha256:" + p.SHA256
}

// push puts the artifact into its repository, unless it is there.
func (p *PlanImage) push(ctx context.Context) error {
	store := artifact.New(artifact.Options{Direct: true})
	defer store.Close()
	repository, err := (&registry.Client{Transport: store.Transport()}).Repository(p.Repository)
	if err != nil {
		return err
	}
	have, err := repository.Check(ctx, p.artifact)
	if err != nil || have == registry.There {
		return err
	}
	return repository.Write(ctx, p.artifact, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(p.data)), nil
	})
}
