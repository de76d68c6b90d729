package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	// inbox is the folder of the user that logs in, to which artifacts are sent where that user may not write to dir;
	// "" = they are sent to dir.
	inbox string
	// own is the agent's program: an artifact of many plans, which is here already.
	own       string
	ownDigest string // sha256
}

func (b *blobs) path(digest string) string { return host.Join(b.os, b.dir, digest) }

// temp is where an artifact is sent to. In the inbox its name is one of those that a push or a leave sweeps away.
func (b *blobs) temp(digest string) string {
	if b.inbox != "" {
		return host.Join(b.os, b.inbox, wire.AgentPrefix+digest+partSuffix+wire.Leftover)
	}
	return b.path(digest) + partSuffix
}

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
	state := wire.BlobState{Temp: b.temp(blob.Digest)}
	state.Part, state.PartSHA256 = b.part(ctx, state.Temp, blob.Size)
	for _, dir := range []string{b.dir, b.inbox} {
		if dir == "" {
			continue
		}
		free, err := b.host.FreeBytes(ctx, dir)
		if err == nil && blob.Size > 0 && free < uint64(blob.Size-state.Part) {
			return wire.BlobState{}, &host.Error{Op: "stage", Subject: dir, Err: host.ErrNoSpace}
		}
	}
	return state, nil
}

// part returns how many bytes an unfinished transfer left, and their digest; 0 if there is nothing to continue.
func (b *blobs) part(ctx context.Context, temp string, size int64) (int64, string) {
	fi, err := b.host.Stat(ctx, temp)
	n := fi.Size - wire.InFlight
	if err != nil || fi.Dir || n <= 0 || fi.Size > size {
		return 0, ""
	}
	f, err := b.host.Open(ctx, temp)
	if err != nil {
		return 0, ""
	}
	sum := sha256.New()
	_, err = io.CopyN(sum, f, n)
	if errors.Join(err, f.Close()) != nil {
		return 0, ""
	}
	return n, hex.EncodeToString(sum.Sum(nil))
}

// add writes the bytes of a part. Those before it are there already, as is the folder, which begin makes.
func (b *blobs) add(_ context.Context, part wire.BlobPart) (wire.None, error) {
	if !part.Valid() {
		return wire.None{}, errBlobName
	}
	f, err := b.openPart(part.Blob, part.Offset)
	if err != nil {
		return wire.None{}, err
	}
	_, err = f.Write(part.Data)
	return wire.None{}, errors.Join(err, f.Close())
}

// openPart opens the temporary file to write what comes after the first bytes, which are there.
func (b *blobs) openPart(blob wire.Blob, offset int64) (*os.File, error) {
	flag := os.O_WRONLY | os.O_CREATE
	if offset == 0 {
		flag |= os.O_TRUNC
	}
	f, err := os.OpenFile(b.temp(blob.Digest), flag, 0o600)
	if err != nil {
		return nil, err
	}
	have, err := f.Seek(0, io.SeekEnd)
	if err == nil && have < offset {
		err = fmt.Errorf("%d bytes of the artifact are here, and those from %d on were sent", have, offset)
	}
	if err == nil {
		err = f.Truncate(offset)
	}
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// finish renames a completely sent blob to its name. The controller has checked the digest of what it sent, and
// the step that reads the blob checks it again.
func (b *blobs) finish(ctx context.Context, blob wire.Blob) (wire.None, error) {
	if !blob.Valid() {
		return wire.None{}, errBlobName
	}
	temp := b.temp(blob.Digest)
	fi, err := b.host.Stat(ctx, temp)
	if err != nil {
		return wire.None{}, err
	}
	if fi.Size != blob.Size {
		return wire.None{}, &steps.Error{Code: steps.CodeFailed, Summary: "the artifact did not arrive whole",
			Detail: temp + " has another size than was sent", Remedy: "apply again; it is sent again"}
	}
	if b.inbox != "" {
		return wire.None{}, b.take(ctx, temp, blob)
	}
	return wire.None{}, b.host.Rename(ctx, temp, b.path(blob.Digest))
}

// take copies what the user sent: a file that was renamed, its user could still change.
func (b *blobs) take(ctx context.Context, temp string, blob wire.Blob) error {
	f, err := b.host.Open(ctx, temp)
	if err != nil {
		return err
	}
	opt := host.WriteOptions{Access: host.AccessPrivate}
	if blob.Algorithm == "sha256" {
		opt.SHA256 = blob.Digest
	}
	err = b.host.WriteFile(ctx, b.path(blob.Digest), f, opt)
	return errors.Join(err, f.Close(), b.host.Remove(ctx, temp))
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
	if json.Unmarshal(spec.Args.JSON(), &src) != nil || src.File == "" {
		return wire.Blob{}, false
	}
	algorithm, digest := src.Digest()
	blob := wire.Blob{Algorithm: algorithm, Digest: digest}
	return blob, blob.Valid()
}

// clear removes everything that was staged, whole or not.
func (b *blobs) clear(ctx context.Context) {
	for _, dir := range []string{b.dir, b.inbox} {
		if dir == "" {
			continue
		}
		list, err := b.host.List(ctx, dir)
		if err != nil {
			continue
		}
		for _, fi := range list {
			name := strings.TrimSuffix(strings.TrimPrefix(fi.Name, wire.AgentPrefix), wire.Leftover)
			if (wire.Blob{Digest: strings.TrimSuffix(name, partSuffix)}).Valid() {
				_ = b.host.Remove(ctx, host.Join(b.os, dir, fi.Name))
			}
		}
	}
}
