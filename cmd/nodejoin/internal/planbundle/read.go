package planbundle

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// mostJSON bounds what describes a bundle or an image (bytes).
const mostJSON = 16 << 20

// DamagedError is a bundle that is not what was written.
type DamagedError struct{ Path, Why string }

func (e *DamagedError) Error() string { return filepath.Base(e.Path) + ": " + e.Why }

// reader reads a bundle from its start to its end.
type reader struct {
	in    *input
	tar   *tar.Reader
	index index
	sum   string // sha256 of the index
}

// begin opens a bundle and reads its index.
func begin(ctx context.Context, path string) (*reader, error) {
	in, err := openInput(path)
	if err != nil {
		return nil, err
	}
	r := &reader{in: in, tar: tar.NewReader(&bounded{ctx, in})}
	if err := r.start(); err != nil {
		in.Close()
		return nil, err
	}
	return r, nil
}

func (r *reader) start() error {
	other := &DamagedError{r.in.path, "it is not a bundle of nodejoin"}
	if !Is(r.in.path) {
		return other
	}
	for _, want := range []string{layoutFile, indexFile} {
		h, err := r.tar.Next()
		if err != nil {
			return r.damaged(err)
		}
		b, err := io.ReadAll(io.LimitReader(r.tar, mostJSON))
		switch {
		case err != nil:
			return r.damaged(err)
		case h.Name != want || want == layoutFile && string(b) != layoutText:
			return other
		case want == indexFile:
			r.sum = text("", b).SHA256
			if !r.index.read(b) {
				return other
			}
		}
	}
	return nil
}

// read reads an index. It reports whether it is one of a bundle.
func (i *index) read(b []byte) bool {
	if json.Unmarshal(b, i) != nil || i.MediaType != types.OCIImageIndex || len(i.Manifests) == 0 ||
		i.Manifests[0].MediaType != types.OCIManifestSchema1 || i.Manifests[0].ArtifactType != artifactType {
		return false
	}
	again, err := encode(*i)
	return err == nil && string(again) == string(b)
}

// damaged says what an error of reading means.
func (r *reader) damaged(err error) error {
	var path *os.PathError
	if errors.As(err, &path) || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!errors.Is(err, tar.ErrHeader) {
		return err
	}
	if errors.Is(err, tar.ErrHeader) {
		return &DamagedError{r.in.path, "its bytes are not those of a tar archive"}
	}
	return &DamagedError{r.in.path, r.in.incomplete()}
}

// blobs calls each for every blob, whose bytes are verified as they are read to their end.
func (r *reader) blobs(each func(sha256 string, size int64, from io.Reader) error) error {
	for {
		h, err := r.tar.Next()
		if errors.Is(err, io.EOF) && r.ended() {
			return nil
		}
		if err != nil {
			return r.damaged(err)
		}
		want, ok := strings.CutPrefix(h.Name, blobFolder)
		if !ok || len(want) != 64 {
			return &DamagedError{r.in.path, fmt.Sprintf("it has %q, which is not a part of a bundle", h.Name)}
		}
		kept := &failing{r: r.tar}
		sum := newVerified(kept)
		err = each(want, h.Size, sum)
		if err == nil {
			err = sum.drain()
		}
		switch {
		case kept.err != nil:
			return r.damaged(kept.err)
		case err != nil:
			return err
		case sum.hex() != want:
			return &DamagedError{r.in.path, fmt.Sprintf("the bytes of blob %s are others: their sha256 is %s. It was changed "+
				"or damaged after it was made", want, sum.hex())}
		}
	}
}

// ended reports whether the two blocks that end an archive are there: tar takes a file that ends between two entries
// for complete.
func (r *reader) ended() bool {
	total := int64(0)
	for _, n := range r.in.sizes {
		total += n
	}
	return r.in.at == total && r.in.at%512 == 0 && r.zeros(1024)
}

// zeros reports whether the archive ends with so many zeros.
func (r *reader) zeros(n int64) bool {
	r.in.at -= n
	b, err := io.ReadAll(r.in)
	return err == nil && int64(len(b)) == n && strings.Trim(string(b), "\x00") == ""
}

// description is what a bundle says of itself.
type description struct {
	Config
	manifest
}

// parse reads the description, of which all is there.
func parse(path string, top index, read func(sha256 string) ([]byte, error)) (d description, err error) {
	text, err := read(top.Manifests[0].Digest.Hex)
	if err != nil {
		return d, err
	}
	bad := &DamagedError{path, "what describes it cannot be read; it may be of a newer nodejoin"}
	if json.Unmarshal(text, &d.manifest) != nil || d.MediaType != types.OCIManifestSchema1 {
		return d, bad
	}
	text, err = read(d.manifest.Config.Digest.Hex)
	if err != nil {
		return d, err
	}
	if json.Unmarshal(text, &d.Config) != nil || d.Plan != "." && !local(d.Plan) {
		return d, bad
	}
	for _, l := range d.Layers {
		if !local(l.Annotations[title]) {
			return d, &DamagedError{path, fmt.Sprintf("it has a file with the name %q", l.Annotations[title])}
		}
	}
	return d, nil
}
