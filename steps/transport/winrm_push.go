package transport

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"

	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/wire"
	"nodejoin/steps/transport/wsman"
)

// living reads and says that there is progress.
type living struct {
	io.Reader
	alive func()
}

func (l *living) Read(p []byte) (int, error) {
	l.alive()
	return l.Reader.Read(p)
}

// archive is the agent as a tar.gz.
func (a agentFile) archive() (io.ReadCloser, error) {
	f, _, err := a.open(agentbin.TGZ)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f, size, err := a.open("")
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() { // ends with its reader
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		t := tar.NewWriter(z)
		err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: agentbin.PackedName, Mode: 0o700, Size: size})
		if err == nil {
			_, err = io.Copy(t, f)
		}
		err = errors.Join(err, t.Close(), z.Close(), f.Close())
		_ = w.CloseWithError(err)
	}()
	return r, nil
}

// upload has the machine fetch what it does not have of an artifact yet; where it cannot reach the controller, the
// artifact is sent through the agent, in chunks.
func (s *winrmConn) upload(ctx context.Context, c *Content, blob wire.Blob, state wire.BlobState,
	progress func(done, total int64)) error {
	alive, rest := s.watch("send an artifact")
	defer rest()
	for _, send := range []func(context.Context, *upload) error{s.fetched, s.parts} {
		f := c.Reader()
		u := &upload{src: c.Source, blob: blob}
		var err error
		if u.from, err = already(f, state); err != nil {
			return fmt.Errorf("read %s: %w", u.src.File, err)
		}
		u.meter = &meter{ctx: ctx, r: f, total: blob.Size, done: u.from, alive: alive, progress: progress}
		if err = send(ctx, u); !errors.Is(err, errNotFetched) {
			return err
		}
		if err := s.own(ctx, wire.MethodBlobBegin, blob, &state); err != nil { // perhaps a part of it was fetched
			return err
		}
	}
	return nil
}

// parts sends an artifact through WinRM: a large one to programs of its own, over connections of their own, as each
// has one message under way; a small one, or where the machine starts no more programs, through the agent.
func (s *winrmConn) parts(ctx context.Context, u *upload) error {
	if n := (u.blob.Size - u.from) / wsman.Chunk; n >= fewParts {
		if all := s.receivers(ctx, u); len(all) > 0 {
			return s.spread(ctx, u, all)
		}
	}
	part := wire.BlobPart{Blob: u.blob, Offset: u.from, Data: make([]byte, chunk)}
	for first := true; first || part.Offset < u.blob.Size; first = false { // an empty one is a part, too
		n, err := io.ReadFull(u.meter, part.Data[:min(chunk, u.blob.Size-part.Offset)])
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("read %s: %w", u.src.File, err)
		}
		send := part
		send.Data = part.Data[:n]
		if err := s.own(ctx, wire.MethodBlobPart, send, &wire.None{}); err != nil {
			return err
		}
		part.Offset += int64(n)
	}
	return nil
}

// chunk is how many bytes of an artifact fit one message to the agent, which WinRM takes at once.
const chunk = (wsman.Chunk - 1024) / 4 * 3

func (s *winrmConn) crashed(ctx context.Context) string {
	text, err := s.command(ctx, "type "+s.file.remote+wire.CrashSuffix, nil)
	if err != nil || text == "" {
		return ""
	}
	return ": " + strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), tailSize)], "?"))
}

func (s *winrmConn) agentDir() string { return strings.Join(agentFolder, `\`) }

// agentName is the form of the names in the agent's folder, which cmd.exe takes as they are.
var agentName = regexp.MustCompile(`^` + wire.AgentPrefix + `[0-9A-Za-z.]+$`)

// removeAgents removes the programs of agents and what interrupted pushes left, then their folder if it is empty.
func (s *winrmConn) removeAgents(ctx context.Context) error {
	dir := s.agentDir()
	list, err := s.command(ctx, "dir /b "+dir, nil)
	var ended *exitError
	if err != nil && !errors.As(err, &ended) { // else the folder is empty, or there is none
		return err
	}
	others := false
	for name := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if name = strings.TrimSpace(name); !agentName.MatchString(name) {
			others = others || name != ""
			continue
		}
		path := dir + `\` + name
		line := "del /f /q " + path
		if strings.HasSuffix(name, wire.Leftover) { // a folder, or a file of a push over SSH
			line = "rmdir /s /q " + path + " || " + line
		}
		if _, err := s.command(ctx, line, nil); err != nil {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if others {
		return nil
	}
	// rmdir takes empty folders only. del is silent where a program still runs, so its folder says what is there.
	if _, err := s.command(ctx, "if exist "+dir+" rmdir "+dir+" & if exist "+dir+" exit 1", nil); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	_, _ = s.command(ctx, "rmdir "+agentFolder[0], nil) // it may hold something else
	return nil
}
