package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// digest is the length of a reader and its sha256, in hex.
func digest(ctx context.Context, r io.Reader) (n int64, sum string, err error) {
	h := sha256.New()
	n, err = io.Copy(h, &bounded{ctx, r})
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// bounded ends with its context.
type bounded struct {
	ctx context.Context
	r   io.Reader
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	return b.r.Read(p)
}
