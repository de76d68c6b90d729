package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"

	"nodejoin/steps/host"
)

// PreviousDir holds the earlier contents of files that nodejoin replaced and that do not
// fit into the record (large ones, and those that others may not read), and what a
// snapshot holds besides. It is private, as the whole of nodejoin's folder. Each file is
// named by its digest.
func PreviousDir(f host.Facts) string { return host.Join(f.OS, f.DataDir, "previous") }

// BlobPath is where the file of this digest lies.
func BlobPath(f host.Facts, digest string) string { return host.Join(f.OS, PreviousDir(f), digest) }

// PreviousFile is the earlier state of a file, as a claim holds it. Of a directory it is
// the access alone.
type PreviousFile struct {
	Content []byte      `json:"content,omitempty"` // of a small file that others may read
	SHA256  string      `json:"sha256,omitempty"`  // of any other, which PreviousDir holds
	Size    int64       `json:"size"`
	Access  host.Access `json:"access,omitempty"`
}

// file is the digest of the file in PreviousDir that the claim of a file needs; "" = none.
func (c Claim) file(key Key) string {
	if key.Prefix != File {
		return ""
	}
	prev, err := Previous[PreviousFile](c)
	if err != nil {
		return ""
	}
	return prev.SHA256
}

// StoreFile copies a file to PreviousDir and gives its digest.
func StoreFile(ctx context.Context, h host.Host, f host.Facts, path string) (string, error) {
	if err := h.Mkdir(ctx, PreviousDir(f), host.AccessPrivate); err != nil {
		return "", err
	}
	sum, err := digest(ctx, h, path)
	if err != nil {
		return "", err
	}
	to := BlobPath(f, sum)
	if there, err := holds(ctx, h, to, sum); err != nil || there {
		return sum, err
	}
	rc, err := h.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	got := sha256.New()
	opt := host.WriteOptions{Access: host.AccessPrivate, SHA256: sum}
	if err := h.WriteFile(ctx, to, io.TeeReader(rc, got), opt); err != nil {
		return "", err
	}
	return hex.EncodeToString(got.Sum(nil)), nil
}

// StoreState puts the JSON form of a state into PreviousDir and gives its digest.
func StoreState(ctx context.Context, h host.Host, f host.Facts, state any) (string, error) {
	b, err := json.Marshal(state)
	if err != nil {
		return "", err
	}
	if err := h.Mkdir(ctx, PreviousDir(f), host.AccessPrivate); err != nil {
		return "", err
	}
	s := sha256.Sum256(b)
	sum := hex.EncodeToString(s[:])
	if there, err := holds(ctx, h, BlobPath(f, sum), sum); err != nil || there {
		return sum, err
	}
	return sum, h.WriteFile(ctx, BlobPath(f, sum), bytes.NewReader(b), host.WriteOptions{Access: host.AccessPrivate,
		SHA256: sum})
}

// ReadState returns the JSON form of a state that StoreState stored.
func ReadState(ctx context.Context, r host.Reader, f host.Facts, digest string) ([]byte, error) {
	rc, err := r.Open(ctx, BlobPath(f, digest))
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, 16<<20))
	if err != nil {
		return nil, err
	}
	if s := sha256.Sum256(b); hex.EncodeToString(s[:]) != digest {
		return nil, errors.New("the file " + BlobPath(f, digest) + " is damaged")
	}
	return b, nil
}

// holds reports whether there is a file with this digest at path.
func holds(ctx context.Context, r host.Reader, path, want string) (bool, error) {
	sum, err := digest(ctx, r, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && sum == want, err
}

// digest is the sha256 of a file in lower-case hex.
func digest(ctx context.Context, r host.Reader, path string) (string, error) {
	rc, err := r.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{rc}, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
