package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
)

// BlobDir is where staged artifacts lie, each named by its digest.
func BlobDir(os, dataDir string) string { return host.Join(os, dataDir, "blobs") }

// partSuffix marks an artifact that is still being sent.
const partSuffix = ".part"

// blobs are the staged artifacts of this machine. They are not the plan's state:
// steps do not need them once they are applied.
type blobs struct {
	host host.Host
	os   string
	dir  string
	// own is the agent's program: an artifact of many plans, which is here already.
	own       string
	ownDigest string // sha256
}

func (b *blobs) path(digest string) string { return host.Join(b.os, b.dir, digest) }

var errBlobName = &steps.Error{Code: steps.CodeInvalid, Summary: "wrong digest form",
	Detail: "an artifact is named by 64 or 128 lower-case hexadecimal digits"}

// begin reports whether the blob is there, else where to send it.
func (b *blobs) begin(ctx context.Context, blob wire.Blob) (wire.BlobState, error) {
	if !blob.Valid() {
		return wire.BlobState{}, errBlobName
	}
	fi, err := b.host.Stat(ctx, b.path(blob.Digest))
	switch {
	case err == nil && fi.Size == blob.Size:
		return wire.BlobState{Have: true}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return wire.BlobState{}, err
	}
	if err := b.host.Mkdir(ctx, b.dir, host.AccessPrivate); err != nil {
		return wire.BlobState{}, err
	}
	if b.own != "" && blob.Digest == b.ownDigest {
		f, err := b.host.Open(ctx, b.own)
		if err != nil {
			return wire.BlobState{}, err
		}
		defer f.Close()
		return wire.BlobState{Have: true}, b.host.WriteFile(ctx, b.path(blob.Digest), f,
			host.WriteOptions{Access: host.AccessPrivate, SHA256: b.ownDigest})
	}
	free, err := b.host.FreeBytes(ctx, b.dir)
	if err == nil && blob.Size > 0 && free < uint64(blob.Size) {
		return wire.BlobState{}, &host.Error{Op: "stage", Subject: b.dir, Err: host.ErrNoSpace}
	}
	return wire.BlobState{Temp: b.path(blob.Digest) + partSuffix}, nil
}

// finish renames a completely sent blob to its name. The controller has checked the digest of what it sent, and
// the step that reads the blob checks it again.
func (b *blobs) finish(ctx context.Context, blob wire.Blob) (wire.None, error) {
	if !blob.Valid() {
		return wire.None{}, errBlobName
	}
	temp := b.path(blob.Digest) + partSuffix
	fi, err := b.host.Stat(ctx, temp)
	if err != nil {
		return wire.None{}, err
	}
	if fi.Size != blob.Size {
		return wire.None{}, &steps.Error{Code: steps.CodeFailed, Summary: "the artifact did not arrive whole",
			Detail: temp + " has another size than was sent", Remedy: "apply again; it is sent again"}
	}
	return wire.None{}, b.host.Rename(ctx, temp, b.path(blob.Digest))
}

// used removes the blobs of the steps that are done, and those with a wrong digest, so that the next run
// sends them again. A failure does not matter: the next clear removes them.
func (b *blobs) used(ctx context.Context, req executor.Request, reply executor.ApplyReply) {
	for _, spec := range req.Steps {
		done := slices.Contains(reply.Changed, spec.ID) || slices.Contains(reply.Unchanged, spec.ID)
		broken := reply.Failed == spec.ID && reply.Err != nil && reply.Err.Code == steps.CodeDigest
		if !done && !broken {
			continue
		}
		if blob, ok := blobOf(spec); ok {
			_ = b.host.Remove(ctx, b.path(blob.Digest))
		}
	}
}

// blobOf is the artifact of the controller that a step names, if any.
func blobOf(spec steps.Spec) (wire.Blob, bool) {
	var src steps.Source
	if json.Unmarshal(spec.Args, &src) != nil || src.File == "" {
		return wire.Blob{}, false
	}
	algorithm, digest := src.Digest()
	blob := wire.Blob{Algorithm: algorithm, Digest: digest}
	return blob, blob.Valid()
}

// clear removes everything that was staged, whole or not.
func (b *blobs) clear(ctx context.Context) {
	list, err := b.host.List(ctx, b.dir)
	if err != nil {
		return
	}
	for _, fi := range list {
		if (wire.Blob{Digest: strings.TrimSuffix(fi.Name, partSuffix)}).Valid() {
			_ = b.host.Remove(ctx, host.Join(b.os, b.dir, fi.Name))
		}
	}
}
