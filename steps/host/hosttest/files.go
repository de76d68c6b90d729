package hosttest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"nodejoin/steps/host"
)

func (s *suite) write() {
	path := s.path("a", "b", "f")
	s.put(path, "one") // creates the missing parents
	first, err := s.Host.Stat(s.ctx, path)
	s.must(err)
	if first.Name != "f" || first.Dir || first.Size != 3 || time.Since(first.ModTime) > time.Hour {
		s.Errorf("info %+v", first)
	}
	s.content(path, "one")
	s.put(path, "second")
	second, err := s.Host.Stat(s.ctx, path)
	s.must(err)
	if first.ID != "" && first.ID == second.ID {
		s.Errorf("a replaced file kept its ID %s", first.ID)
	}
	s.content(path, "second")
	s.put(path, "")
	s.content(path, "")
	s.names(s.path("a", "b"), "f")
	big := strings.Repeat("0123456789abcdef", 1<<17)
	s.put(path, big)
	s.content(path, big)

	dir := s.path("a")
	info, err := s.Host.Stat(s.ctx, dir)
	s.must(err)
	if info.Name != "a" || !info.Dir || info.Size != 0 {
		s.Errorf("info of a folder %+v", info)
	}
	s.isNoAnswer("write over a folder", s.Host.WriteFile(s.ctx, dir, strings.NewReader("x"), host.WriteOptions{}))
	_, err = s.Host.Open(s.ctx, dir)
	s.isNoAnswer("open a folder", err)
	s.names(s.Dir, "a")
}

var errSource = errors.New("the source broke")

// interruptedWrite: the old file stays if the new bytes do not all arrive, and what an earlier attempt left
// beside it does not get in the way.
func (s *suite) interruptedWrite() {
	path := s.path("f")
	s.put(path, "old")
	broken := io.MultiReader(strings.NewReader("new, but not all"), failing{})
	s.is("write from a broken source", s.Host.WriteFile(s.ctx, path, broken, host.WriteOptions{}), errSource)
	s.content(path, "old")
	s.names(s.Dir, "f")
	s.put(host.TempName(path), "left behind, and longer than what comes")
	s.put(path, "new")
	s.content(path, "new")
	s.names(s.Dir, "f")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errSource }

func (s *suite) digest() {
	sum := sha256.Sum256([]byte("right"))
	opt := host.WriteOptions{SHA256: hex.EncodeToString(sum[:])}
	path := s.path("d", "f")
	check := func(err error) {
		s.Helper()
		var digest *host.DigestError
		if !errors.As(err, &digest) {
			s.Fatalf("wrong digest: %v", err)
		}
		wrong := sha256.Sum256([]byte("wrong"))
		if digest.Algorithm != "sha256" || digest.Want != opt.SHA256 || digest.Got != hex.EncodeToString(wrong[:]) {
			s.Errorf("%+v", digest)
		}
	}
	check(s.Host.WriteFile(s.ctx, path, strings.NewReader("wrong"), opt))
	s.isAbsent(path)
	s.isAbsent(host.TempName(path))
	s.must(s.Host.WriteFile(s.ctx, path, strings.NewReader("right"), opt))
	check(s.Host.WriteFile(s.ctx, path, strings.NewReader("wrong"), opt))
	s.content(path, "right")
	s.names(s.path("d"), "f")
}

// exclusive: if several callers create the same file at the same time, one succeeds.
func (s *suite) exclusive() {
	path := s.path("lock")
	const creators = 8
	errs := make([]error, creators)
	var group sync.WaitGroup
	for i := range creators {
		group.Go(func() { errs[i] = s.Host.CreateExclusive(s.ctx, path, fmt.Append(nil, i)) })
	}
	group.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			s.Errorf("both %d and %d created the file", won, i)
		case err == nil:
			won = i
		default:
			s.is("create an existing file", err, fs.ErrExist)
		}
	}
	if won < 0 {
		s.Fatal("nobody created the file")
	}
	s.content(path, fmt.Sprint(won))
	s.names(s.Dir, "lock")
}

func (s *suite) list() {
	s.names(s.Dir)
	for _, name := range []string{"c", "a", "b d", "e"} {
		s.put(s.path(name), name)
	}
	s.must(s.Host.Mkdir(s.ctx, s.path("dir"), host.AccessDefault))
	s.names(s.Dir, "a", "b d", "c", "dir", "e")
	entries, err := s.Host.List(s.ctx, s.Dir)
	s.must(err)
	for _, e := range entries {
		info, err := s.Host.Stat(s.ctx, s.path(e.Name))
		s.must(err)
		s.equal("entry "+e.Name, e, info)
	}
}

func (s *suite) absence() {
	s.put(s.path("file"), "x")
	for _, path := range []string{s.path("no"), s.path("no", "no"), s.path("file", "no")} {
		_, err := s.Host.Stat(s.ctx, path)
		s.is("stat "+path, err, fs.ErrNotExist)
		_, err = s.Host.Open(s.ctx, path)
		s.is("open "+path, err, fs.ErrNotExist)
		_, err = s.Host.List(s.ctx, path)
		s.is("list "+path, err, fs.ErrNotExist)
		s.is("set access", s.Host.SetAccess(s.ctx, path, host.AccessPrivate), fs.ErrNotExist)
		s.is("rename", s.Host.Rename(s.ctx, path, s.path("to")), fs.ErrNotExist)
		var known *host.Error
		if _, err := s.Host.Stat(s.ctx, path); !errors.As(err, &known) || known.Subject != path || known.Op == "" {
			s.Errorf("error %#v does not say what was asked", err)
		}
	}
	s.names(s.Dir, "file")
}

// hasAccess checks the access that is observed: Windows has no executable bit.
func (s *suite) hasAccess(path string, want host.Access, file bool) {
	s.Helper()
	if want == host.AccessProgram && (s.os == "windows" || !file) {
		want = host.AccessDefault
	}
	info, err := s.Host.Stat(s.ctx, path)
	s.must(err)
	if info.Access != want {
		s.Errorf("%s: access %q, want %q", info.Name, info.Access, want)
	}
}

func (s *suite) access() {
	all := []host.Access{host.AccessDefault, host.AccessPrivate, host.AccessProgram, host.AccessPrivate,
		host.AccessDefault}
	for _, access := range all { // replaces the file and changes the folder
		s.must(s.Host.WriteFile(s.ctx, s.path("f"), strings.NewReader("x"), host.WriteOptions{Access: access}))
		s.hasAccess(s.path("f"), access, true)
		s.must(s.Host.Mkdir(s.ctx, s.path("d"), access))
		s.hasAccess(s.path("d"), access, false)
	}
	for _, access := range all {
		s.must(s.Host.SetAccess(s.ctx, s.path("f"), access))
		s.hasAccess(s.path("f"), access, true)
		s.must(s.Host.SetAccess(s.ctx, s.path("d"), access))
		s.hasAccess(s.path("d"), access, false)
		s.content(s.path("f"), "x")
	}
	s.must(s.Host.Mkdir(s.ctx, s.path("p", "new"), host.AccessPrivate))
	s.hasAccess(s.path("p"), host.AccessDefault, false)
	s.hasAccess(s.path("p", "new"), host.AccessPrivate, false)
	made, err := s.Host.Stat(s.ctx, s.path("p"))
	s.must(err)
	if made.Open {
		s.Error("others may rename a folder that was made on the way")
	}
	s.isNoAnswer("an access that does not exist", s.Host.SetAccess(s.ctx, s.path("f"), "nobody"))
}

func (s *suite) rename() {
	from, to := s.path("from"), s.path("to")
	s.must(s.Host.WriteFile(s.ctx, from, strings.NewReader("one"), host.WriteOptions{Access: host.AccessPrivate}))
	s.must(s.Host.Rename(s.ctx, from, to))
	s.content(to, "one")
	s.hasAccess(to, host.AccessPrivate, true)
	s.isAbsent(from)
	s.put(from, "two")
	s.must(s.Host.Rename(s.ctx, from, to)) // replaces
	s.content(to, "two")
	s.hasAccess(to, host.AccessDefault, true)
	s.names(s.Dir, "to")
	s.must(s.Host.Mkdir(s.ctx, s.path("d"), host.AccessDefault))
	s.must(s.Host.Rename(s.ctx, to, s.path("d", "f")))
	s.must(s.Host.Rename(s.ctx, s.path("d"), s.path("e"))) // a folder with its contents
	s.content(s.path("e", "f"), "two")
	s.names(s.Dir, "e")
}

func (s *suite) remove() {
	path := s.path("d", "f")
	s.put(path, "x")
	s.isNoAnswer("remove a folder that is not empty", s.Host.Remove(s.ctx, s.path("d")))
	s.content(path, "x")
	for _, p := range []string{path, path, s.path("d"), s.path("d"), path, s.path("no", "no")} {
		s.must(s.Host.Remove(s.ctx, p))
		s.isAbsent(p)
	}
	s.names(s.Dir)
}

func (s *suite) mkdir() {
	path := s.path("a", "b", "c")
	for range 2 {
		s.must(s.Host.Mkdir(s.ctx, path, host.AccessDefault))
		s.put(host.Join(s.os, path, "kept"), "x")
	}
	s.names(path, "kept")
	s.put(s.path("file"), "x")
	s.isNoAnswer("a folder where a file is", s.Host.Mkdir(s.ctx, s.path("file"), host.AccessDefault))
	if s.Host.Mkdir(s.ctx, s.path("file", "d"), host.AccessDefault) == nil {
		s.Error("a folder was made below a file")
	}
	s.content(s.path("file"), "x")
}

// unmount: unmounting what is not mounted changes nothing, and files stay.
func (s *suite) unmount() {
	path := s.path("d")
	for range 2 {
		mounts, err := s.Host.Mounts(s.ctx, path)
		s.must(err)
		if len(mounts) > 0 {
			s.Errorf("mounts %q, want none", mounts)
		}
		s.must(s.Host.Unmount(s.ctx, path))
		s.put(host.Join(s.os, path, "kept"), "x")
	}
	s.names(path, "kept")
}

func (s *suite) freeSpace() {
	for _, path := range []string{s.Dir, s.path("not", "yet", "there")} {
		n, err := s.Host.FreeBytes(s.ctx, path)
		if err != nil || n == 0 {
			s.Errorf("free space at %s: %d, %v", path, n, err)
		}
	}
}

// badPaths: a path that is not absolute is refused, not resolved against some folder.
func (s *suite) badPaths() {
	for _, path := range []string{"", "relative", host.Join(s.os, "relative", "f")} {
		_, err := s.Host.Stat(s.ctx, path)
		s.isNoAnswer("stat", err)
		_, err = s.Host.Open(s.ctx, path)
		s.isNoAnswer("open", err)
		_, err = s.Host.List(s.ctx, path)
		s.isNoAnswer("list", err)
		s.isNoAnswer("write", s.Host.WriteFile(s.ctx, path, strings.NewReader("x"), host.WriteOptions{}))
		s.isNoAnswer("create", s.Host.CreateExclusive(s.ctx, path, nil))
		s.isNoAnswer("make", s.Host.Mkdir(s.ctx, path, host.AccessDefault))
		s.isNoAnswer("remove", s.Host.Remove(s.ctx, path))
		s.isNoAnswer("rename", s.Host.Rename(s.ctx, s.Dir, path))
	}
}
