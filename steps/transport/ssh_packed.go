package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/pkg/sftp"

	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/wire"
)

// unpackBound is how long a machine may take to unpack the agent: some 11 MB.
const unpackBound = 60 * time.Second

// pushPacked sends the agent packed, a third of its size, and has tar of the machine unpack it as temp. It is false
// where there is no packed one or the machine cannot unpack it; the agent is sent as it is then. What came of it is
// proved as ever: the agent says the digest of its file before it is asked for anything that changes.
func (s *sshConn) pushPacked(ctx context.Context, c *sftp.Client, temp string, size int64, alive func()) (bool,
	error) {
	f, packedSize, err := s.file.open(agentbin.TGZ)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	dir := temp + ".d" + wire.Leftover
	defer discard(c, dir)
	if err := c.Mkdir(dir); err != nil {
		return false, fmt.Errorf("make folder %s: %w", dir, err)
	}
	packed := path.Join(dir, "agent"+agentbin.TGZ)
	if err := send(c, packed, &meter{ctx: ctx, r: f, total: packedSize, alive: alive}); err != nil {
		return false, fmt.Errorf("send the agent to %s: %w", packed, err)
	}
	// Slashes and names without blanks: cmd.exe, PowerShell and the shells of POSIX take the same line. -o: the file is
	// the user's, not of whom the archive names; -m: it is of now, so that nobody takes it for a leftover.
	how := ""
	if err := s.bounded(ctx, "unpack the agent", func() error {
		p, err := start(s.way.last(), "tar -xozmf "+packed+" -C "+dir)
		if err != nil {
			return err
		}
		how = p.end(unpackBound)
		return p.Close()
	}); err != nil && !errors.Is(err, io.EOF) { // of a channel that the machine has closed
		return false, err
	}
	alive()
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	unpacked := path.Join(dir, agentbin.PackedName)
	have, err := c.Lstat(unpacked)
	if how != "exit status 0" || err != nil || !have.Mode().IsRegular() || have.Size() != size {
		return false, nil // no tar, or one that does not do it
	}
	return c.Rename(unpacked, temp) == nil, nil
}
