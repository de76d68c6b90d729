package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/pkg/sftp"

	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/wire"
)

// push sends the agent: to a temporary name, then to its own.
func (s *sshConn) push(ctx context.Context) error {
	size, err := agentbin.Size(s.file.local, s.file.digest)
	if err != nil {
		return ofController(err)
	}
	c, err := s.files(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		if !stop() {
			s.closeFiles()
		}
	}()
	alive, rest := s.watch("send the agent")
	defer rest()
	dest := sftpPath(s.cfg.OS, s.file.remote)
	err = s.put(ctx, c, dest, size, alive)
	if err != nil && ctx.Err() == nil && !OfController(err) {
		return s.noRoom(c, path.Dir(dest), size, err)
	}
	return err
}

// put sends the agent, which has this size, to a temporary name, then to dest.
func (s *sshConn) put(ctx context.Context, c *sftp.Client, dest string, size int64, alive func()) error {
	if err := s.makeFolder(c, path.Dir(dest)); err != nil {
		return err
	}
	temp := sftpPath(s.cfg.OS, s.file.temp) + ".s" + wire.Leftover // not the shell's, which may still be at work
	sweep(c, path.Dir(dest), path.Base(s.file.packed()))
	unpacked, err := s.pushPacked(ctx, c, temp, size, alive)
	if err != nil {
		return err
	}
	if !unpacked {
		if err := s.putPlain(ctx, c, temp, alive); err != nil {
			_ = c.Remove(temp)
			return fmt.Errorf("send the agent to %s: %w", s.file.remote, err)
		}
	}
	if err := c.Chmod(temp, 0o700); err != nil && s.cfg.OS != "windows" {
		_ = c.Remove(temp)
		return fmt.Errorf("make %s executable: %w", s.file.remote, err)
	}
	if err := replace(c, temp, dest); err != nil {
		_ = c.Remove(temp)
		return fmt.Errorf("put the agent in place as %s: %w", s.file.remote, err)
	}
	return nil
}

// putPlain sends the agent as it is.
func (s *sshConn) putPlain(ctx context.Context, c *sftp.Client, temp string, alive func()) error {
	f, size, err := s.file.open("")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return send(c, temp, &meter{ctx: ctx, r: f, total: size, alive: alive})
}

// noRoom is the error of a push where the disk is full, for which SFTP has no error of its own; else it is err.
func (s *sshConn) noRoom(c *sftp.Client, dir string, need int64, err error) error {
	home, asked := c.Getwd()
	if asked != nil {
		return err
	}
	if !path.IsAbs(dir) {
		dir = path.Join(home, dir)
	}
	var free uint64
	for ; ; dir = path.Dir(dir) { // up to a folder that exists
		st, asked := c.StatVFS(dir)
		if asked == nil {
			free = st.Frsize * st.Bavail
			break
		}
		if dir == path.Dir(dir) {
			return err // a server without that extension
		}
	}
	if free >= uint64(need) {
		return err
	}
	return &ConnectError{Reason: ReasonAgent, Host: s.name, Summary: "no room for the agent",
		Detail: fmt.Sprintf("the disk of its folder, %s, has %.1f MB free, and the agent needs %.1f MB",
			path.Dir(sftpPath(s.cfg.OS, s.file.remote)), float64(free)/1e6, float64(need)/1e6), Err: err,
		Remedy: "make room on that disk of the machine, then run the same command again"}
}

// sweep removes what interrupted pushes left, and the file of this name. Its failures do not matter.
func sweep(c *sftp.Client, dir, own string) {
	list, err := c.ReadDir(dir)
	if err != nil {
		return
	}
	for _, fi := range list {
		if strings.HasPrefix(fi.Name(), wire.AgentPrefix) && strings.HasSuffix(fi.Name(), wire.Leftover) &&
			(fi.Name() == own || time.Since(fi.ModTime()) > leftoverAge) {
			discard(c, path.Join(dir, fi.Name()))
		}
	}
}

// makeFolder makes dir, the agent's folder, and its parent for the owner alone. Where they are there, others lose
// what rights they have; a link, or a folder of another user, is an error.
func (s *sshConn) makeFolder(c *sftp.Client, dir string) error {
	home, _ := c.Lstat(".")
	for _, d := range []string{path.Dir(dir), dir} {
		fi, err := c.Lstat(d)
		made := false
		if errors.Is(err, fs.ErrNotExist) {
			failed := c.Mkdir(d)
			if made = failed == nil; !made {
				if fi, err = c.Lstat(d); err != nil { // else another run has made it meanwhile
					return fmt.Errorf("make folder %s: %w", d, failed)
				}
			}
		}
		switch {
		case made:
		case err != nil:
			return fmt.Errorf("look at the folder %s: %w", d, err)
		case s.cfg.OS == "windows": // whose SFTP has neither owners nor links; the home folder keeps others away
			continue
		case !fi.IsDir():
			return fmt.Errorf("%s is not a folder: remove it", d)
		case home != nil && owner(fi) != owner(home) && owner(fi) != 0:
			return fmt.Errorf("%s belongs to another user (%d): remove it", d, owner(fi))
		case fi.Mode().Perm()&0o077 == 0:
			continue
		}
		if err := c.Chmod(d, 0o700); err != nil && s.cfg.OS != "windows" {
			return fmt.Errorf("close the folder %s to others: %w", d, err)
		}
	}
	return nil
}

// owner is the user id of a file's owner; 0 where the server does not say.
func owner(fi fs.FileInfo) uint32 {
	if st, ok := fi.Sys().(*sftp.FileStat); ok {
		return st.UID
	}
	return 0
}
