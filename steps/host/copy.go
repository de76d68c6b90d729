package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
)

// Copy copies r to w until ctx ends. If want, a sha256 in hex, is set and the bytes have another digest, it returns
// a *DigestError about path.
func Copy(ctx context.Context, w io.Writer, r io.Reader, path, want string) error {
	digest := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, digest), &boundedReader{ctx, r}); err != nil {
		return err
	}
	if got := hex.EncodeToString(digest.Sum(nil)); want != "" && !strings.EqualFold(got, want) {
		return &DigestError{Subject: path, Algorithm: "sha256", Want: strings.ToLower(want), Got: got}
	}
	return nil
}

// boundedReader ends a copy when its context does.
type boundedReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *boundedReader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(b)
}
