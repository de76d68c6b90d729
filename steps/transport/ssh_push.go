package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pkg/sftp"

	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
)

// agentFile is the agent on both sides.
type agentFile struct {
	os     string
	local  string // path on the controller
	digest string // sha256, lower-case hex
	remote string // path on the machine, with the digest in its name
	data   string // nodejoin's folder on the machine
	posix  bool   // the user's shell takes a backslash for a quote
}

// agentFolder is where agents lie, relative to the home folder of the user that
// logs in: SFTP and commands of SSH servers start there. It is not in the data
// folder, because what is first run there must not be something that another user
// of the machine could have put in its place, as any user can below
// C:\ProgramData.
var agentFolder = []string{".nodejoin", "agent"}

func newAgentFile(c SSHConfig, local, digest string) agentFile {
	name := wire.AgentPrefix + digest[:min(16, len(digest))]
	if c.OS == "windows" {
		name += ".exe"
	}
	return agentFile{os: c.OS, local: local, digest: digest,
		remote: host.Join(c.OS, append(slices.Clone(agentFolder), name)...), data: c.DataDir}
}

// serve is the command line that starts the agent: a path without blanks, and the data
// folder in hex. On Windows cmd.exe and PowerShell take the same one, and the shells of
// POSIX, of which one may be the default shell of OpenSSH, another: cmd.exe takes what
// follows a slash for options.
func (a agentFile) serve() string {
	program := a.remote
	if a.posix {
		program = strings.ReplaceAll(program, `\`, "/")
	}
	return program + " serve " + hex.EncodeToString([]byte(a.data))
}

// line is the command line that starts the agent.
func (a agentFile) line(b *Become) string {
	if b != nil {
		return a.become(b)
	}
	return a.serve()
}

// sftpPath is the form of a machine's path in SFTP: OpenSSH on Windows has
// /C:/x for C:\x.
func sftpPath(os, p string) string {
	if os != "windows" {
		return p
	}
	p = strings.ReplaceAll(p, `\`, "/")
	if len(p) > 1 && p[1] == ':' {
		p = "/" + p
	}
	return p
}

// files opens SFTP once per connection.
func (s *sshConn) files(ctx context.Context) (*sftp.Client, error) {
	if s.sftp != nil {
		return s.sftp, nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	// 128 requests of 32 KiB fill the send window of OpenSSH (2 MiB) at any delay.
	var c *sftp.Client
	err := s.bounded(ctx, "open SFTP", func() (err error) {
		c, err = sftp.NewClient(s.way.last(), sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(128))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open SFTP: %w", err)
	}
	s.sftp = c
	return c, nil
}

// closeFiles closes SFTP and aborts its requests.
func (s *sshConn) closeFiles() {
	if s.sftp != nil {
		_ = s.sftp.Close()
		s.sftp = nil
	}
}

// push sends the agent: to a temporary name, then to its own.
func (s *sshConn) push(ctx context.Context) error {
	f, err := os.Open(s.file.local)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	fi, err := f.Stat()
	if err != nil {
		return err
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
	if err := s.makeFolder(c, path.Dir(dest)); err != nil {
		return err
	}
	// Its own name: two controllers may push at the same time.
	temp := dest + "." + strings.ToLower(rand.Text()[:8]) + wire.Leftover
	sweep(c, path.Dir(dest))
	unpacked, err := s.pushPacked(ctx, c, temp, fi.Size(), alive)
	if err != nil {
		return err
	}
	if !unpacked {
		if err := send(c, temp, &meter{ctx: ctx, r: f, total: fi.Size(), alive: alive}); err != nil {
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

// leftoverAge is when what is being sent or was replaced is nobody's any more.
const leftoverAge = time.Hour

// sweep removes what interrupted pushes left. Its failures do not matter.
func sweep(c *sftp.Client, dir string) {
	list, err := c.ReadDir(dir)
	if err != nil {
		return
	}
	for _, fi := range list {
		if strings.HasPrefix(fi.Name(), wire.AgentPrefix) && strings.HasSuffix(fi.Name(), wire.Leftover) &&
			time.Since(fi.ModTime()) > leftoverAge {
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
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := c.Mkdir(d); err != nil {
				return fmt.Errorf("make folder %s: %w", d, err)
			}
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

// send writes a new file with many requests under way at once.
func send(c *sftp.Client, dest string, m *meter) error {
	f, err := c.OpenFile(dest, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	n, err := f.ReadFrom(m)
	if m.err != nil {
		err = m.err
	}
	if err == nil && n != m.total {
		err = fmt.Errorf("%d of %d bytes were read: %w", n, m.total, io.ErrUnexpectedEOF)
	}
	return errors.Join(err, f.Close())
}

// replace gives temp the name dest. On servers without an atomic rename it moves dest away first; Windows
// can rename a running program but not replace it.
func replace(c *sftp.Client, temp, dest string) error {
	if c.PosixRename(temp, dest) == nil {
		return nil
	}
	if err := c.Remove(dest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = c.Rename(dest, dest+"."+strings.ToLower(rand.Text()[:8])+wire.Leftover)
	}
	return c.Rename(temp, dest)
}

// meter reads a file of known size for an upload: it ends with its context, and
// says how far it is.
type meter struct {
	ctx      context.Context
	r        io.Reader
	total    int64
	alive    func()                  // hears that there is progress
	progress func(done, total int64) // may be nil
	done     int64
	said     time.Time
	err      error // of r or ctx
}

// progressEvery bounds how often progress is reported.
const progressEvery = 100 * time.Millisecond

// Size lets sftp.File.ReadFrom choose how many requests to keep under way.
func (m *meter) Size() int64 { return m.total }

func (m *meter) Read(p []byte) (int, error) {
	if err := context.Cause(m.ctx); err != nil {
		m.err = err
		return 0, err
	}
	m.alive()
	n, err := m.r.Read(p)
	m.done += int64(n)
	if err != nil && err != io.EOF {
		m.err = err
	}
	if now := time.Now(); m.progress != nil && n > 0 && (m.done == m.total || now.Sub(m.said) > progressEvery) {
		m.said = now
		m.progress(m.done, m.total)
	}
	return n, err
}
