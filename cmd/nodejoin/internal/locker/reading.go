package locker

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/steps"
)

// readers bounds how many artifacts or images are read at once.
const readers = 4

// opener returns the bytes of an artifact or a checksum file, and their number or -1.
type opener func(context.Context, steps.Source) (io.ReadCloser, int64, error)

// reading is what was read of an artifact.
type reading struct {
	size           int64
	sha256, sha512 string
}

func (open opener) read(ctx context.Context, src steps.Source) (r reading, err error) {
	body, promised, err := open(ctx, src)
	if err != nil {
		return r, err
	}
	defer func() { _ = body.Close() }() // it was only read
	small, large := sha256.New(), sha512.New()
	r.size, err = io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(small, large)}, struct{ io.Reader }{body},
		make([]byte, 256<<10))
	if err == nil && promised >= 0 && r.size != promised {
		err = fmt.Errorf("%s: %d bytes, and %d were promised", src.Name(), r.size, promised)
	}
	r.sha256, r.sha512 = hex.EncodeToString(small.Sum(nil)), hex.EncodeToString(large.Sum(nil))
	return r, err
}

func fault(at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at}
}
