package transport

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/pkg/sftp"

	"nodejoin/steps/transport/wire"
)

// sshConn is a Conn over SSH.
type sshConn struct {
	agentConn
	way  *way
	life context.Context // ends when this side closes the connection
	sftp *sftp.Client    // opened when first needed
}

func (s *sshConn) open(line string) (program, error) {
	p, err := start(s.way.last(), line)
	if err != nil {
		return nil, err
	}
	p.announce.Store(s.cfg.OS == "linux" && !s.file.placed)
	return p, nil
}

func (s *sshConn) blame(err error) error {
	return s.way.blame(s.life, s.work.Go, err, len(s.way.clients)-1)
}

func (s *sshConn) hangUp() { s.way.close() }

func (s *sshConn) release() {
	if s.sftp != nil {
		_ = s.sftp.Close()
	}
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

func (s *sshConn) crashed(ctx context.Context) string {
	c, err := s.files(ctx)
	if err != nil {
		return ""
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		if !stop() {
			s.closeFiles()
		}
	}()
	f, err := c.Open(sftpPath(s.cfg.OS, s.file.remote) + wire.CrashSuffix)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, tailSize)) // the reason is at the beginning
	if err != nil || len(b) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(strings.ToValidUTF8(string(b), "?"))
}
