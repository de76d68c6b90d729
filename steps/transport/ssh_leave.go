package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pkg/sftp"

	"nodejoin/steps/transport/wire"
)

func (s *sshConn) removeAgents(ctx context.Context) error {
	c, err := s.files(ctx)
	if err != nil {
		return err
	}
	return removeAgents(c, path.Dir(sftpPath(s.cfg.OS, s.file.remote)))
}

// removeAgents removes the agents in dir, then dir and its parent if they are empty.
func removeAgents(c *sftp.Client, dir string) error {
	list, err := c.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	others := false
	for _, fi := range list {
		name := path.Join(dir, fi.Name())
		remove := c.Remove
		switch {
		case !strings.HasPrefix(fi.Name(), wire.AgentPrefix), fi.IsDir() && !strings.HasSuffix(name, wire.Leftover):
			others = true
			continue
		case fi.IsDir(): // of a push that was interrupted
			remove = c.RemoveDirectory
			empty(c, name)
		}
		if err := remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	if others {
		return nil
	}
	if err := c.RemoveDirectory(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if list, err := c.ReadDir(path.Dir(dir)); err != nil || len(list) > 0 {
		return nil //nolint:nilerr // a folder that cannot be read may hold something, so it stays
	}
	if err := c.RemoveDirectory(path.Dir(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path.Dir(dir), err)
	}
	return nil
}
