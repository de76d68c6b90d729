package pull

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"nodejoin/plan/names"
	"nodejoin/steps"
)

// Release says which bundle a plan is. Its file has the signatures first, of SSH, Sigstore or both, then the release
// itself, which is what 'ssh-keygen -Y sign' and 'cosign sign-blob' sign.
type Release struct {
	Version int `json:"version"` // of this form
	// Plan is the name by which nodes follow it, so that one key can sign several plans.
	Plan string `json:"plan"`
	// Serial counts up: a node applies no release with a lower one than it has applied.
	Serial int64     `json:"serial"`
	Made   time.Time `json:"made"`
	// Expires is when the release no longer counts; zero = never. Then a source that gives nothing newer is noticed.
	Expires time.Time `json:"expires,omitzero"`
	Bundle  string    `json:"bundle"` // the name of the file beside the release
	Size    int64     `json:"size"`   // bytes
	SHA256  string    `json:"sha256"` // of the file, in lower-case hex
}

const (
	releaseVersion = 1
	// Suffix is that of the file of a release, after the name of its bundle.
	Suffix = ".release"
	// textSuffix is that of the file with the text of a release alone.
	textSuffix = Suffix + ".json"
	// maxRelease bounds the file of a release, in bytes; it has about 1 kB.
	maxRelease = 64 << 10
)

// check reports what a release lacks.
func (r Release) check() error {
	switch {
	case r.Version != releaseVersion:
		return fmt.Errorf("the release has the version %d, and this nodejoin reads version %d", r.Version, releaseVersion)
	case !names.IsDNS(r.Plan) || r.Serial <= 0 || r.Size <= 0 || steps.DigestAlgorithm(r.SHA256) != "sha256":
		return errors.New("the release is not complete")
	case r.Bundle == "" || strings.ContainsAny(r.Bundle, `/\:?#%`) || strings.HasPrefix(r.Bundle, "."):
		return fmt.Errorf("%q is not the name of a file beside the release", r.Bundle)
	}
	return nil
}

// text is what is signed of a release.
func (r Release) text() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// open verifies the file of a release. by names who signed it.
func open(file []byte, trusted Trusted, now time.Time) (r Release, by string, err error) {
	text, by, err := trusted.verify(file, now)
	if err != nil {
		return r, "", err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, "", fmt.Errorf("what is signed is not a release of a plan: %w", err)
	}
	if !r.Expires.IsZero() && !now.Before(r.Expires) {
		return r, "", fmt.Errorf("release %d expired at %s; publish a newer one", r.Serial, r.Expires.Format(time.RFC3339))
	}
	return r, by, r.check()
}

// digestOf is the sha256 of a file, and its size.
func digestOf(name string) (string, int64, error) {
	in, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = in.Close() }() // it was only read
	sum := sha256.New()
	n, err := io.Copy(sum, in)
	return hex.EncodeToString(sum.Sum(nil)), n, err
}
