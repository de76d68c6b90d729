package kinds

import (
	"bytes"
	"context"
	"io"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// maxHeld is how many bytes of the members of an archive wait in memory, so that one save of the record claims them.
const maxHeld = 4 << 20

// staging is an archive while it is unpacked. Nothing is written before it is claimed. Members wait in memory as long
// as there is room; the others lie at their TempName until the digest of the archive holds.
type staging struct {
	host host.Host
	env  *steps.Env
	record.Unpacked
	have map[string]string // what settle has found in their places, path to sha256; "" = nothing
	held []heldMember
	size int // of the held members, bytes
}

// heldMember is a member that waits in memory.
type heldMember struct {
	path    string
	access  host.Access
	content []byte
}

// add takes a member, all of which it reads.
func (s *staging) add(ctx context.Context, path string, access host.Access, r io.Reader) error {
	content, err := io.ReadAll(io.LimitReader(r, int64(maxHeld-s.size)))
	if err != nil {
		return err
	}
	if s.size += len(content); s.size < maxHeld {
		s.held = append(s.held, heldMember{path, access, content})
		return nil
	}
	s.held = append(s.held, heldMember{path: path})
	if err := s.claim(ctx); err != nil {
		return err
	}
	s.held = s.held[:len(s.held)-1]
	if err := s.flush(ctx); err != nil {
		return err
	}
	return s.host.WriteFile(ctx, host.TempName(path), io.MultiReader(bytes.NewReader(content), r),
		host.WriteOptions{Access: access, Followed: true})
}

// flush writes the held members beside their places.
func (s *staging) flush(ctx context.Context) error {
	for _, m := range s.held {
		if err := m.write(ctx, s.host, host.TempName(m.path), true); err != nil {
			return err
		}
	}
	s.held, s.size = nil, 0
	return nil
}

// settle ends the staging of an archive whose digest holds. Held members that replace files, or go where services run
// that have to stop, are written beside their places, so that a full disk is noticed before anything stops.
func (s *staging) settle(ctx context.Context, services []string) error {
	if err := s.claim(ctx); err != nil {
		return err
	}
	flush, add := false, false
	for p, want := range s.Files {
		d, err := s.env.FileDigest(ctx, s.host, p)
		if err != nil {
			return err
		}
		s.have[p] = d
		flush = flush || d != "" && d != want
		add = add || d != want
	}
	if add && !flush {
		var err error
		if flush, err = anyRuns(ctx, s.host, services); err != nil {
			return err
		}
	}
	if flush {
		return s.flush(ctx)
	}
	return nil
}

// claim claims the held members with one save of the record.
func (s *staging) claim(ctx context.Context) error {
	var claims []record.New
	for _, m := range s.held {
		list, err := fileClaims(ctx, s.host, s.env, m.path, false)
		if err != nil {
			return err
		}
		claims = append(claims, list...)
	}
	return s.env.Claim(ctx, s.host, claims...)
}

// put puts a member in its place. next is the one after it; "" = none.
func (s *staging) put(ctx context.Context, path, next string) error {
	if s.have[path] == s.Files[path] {
		return s.host.Remove(ctx, host.TempName(path))
	}
	for _, m := range s.held {
		if m.path == path {
			followed := s.have[next] != s.Files[next] && host.Dir(s.env.Facts.OS, next) == host.Dir(s.env.Facts.OS, path)
			return running(path, m.write(ctx, s.host, path, followed))
		}
	}
	return moveIn(ctx, s.host, host.TempName(path), path)
}

func (m heldMember) write(ctx context.Context, h host.Files, path string, followed bool) error {
	return h.WriteFile(ctx, path, bytes.NewReader(m.content), host.WriteOptions{Access: m.access, Followed: followed})
}
