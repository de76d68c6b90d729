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

	"nodejoin/steps/executor"
	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/wire"
	"nodejoin/steps/wait"
)

// agentGone bounds the wait for the end of the agent's process, before and while its
// program is removed.
const agentGone = 15 * time.Second

// Forget has the agent remove nodejoin's folder, ends it, and removes its program with
// those of earlier versions from the home folder of the user that logs in.
func (s *sshConn) Forget(ctx context.Context, req executor.LeaveRequest) (reply executor.ForgetReply, err error) {
	if err := s.ready(ctx); err != nil {
		return reply, err
	}
	if err := s.own(ctx, wire.MethodForget, req, &reply); err != nil {
		return executor.ForgetReply{}, cleaned(err)
	}
	hosttext.Strings(&reply)
	_, p := s.agent()
	_ = p.CloseWrite()
	p.end(agentGone)
	c, err := s.files(ctx)
	if err != nil {
		return reply, s.failed(ctx, err)
	}
	_, rest := s.watch("remove the agent")
	defer rest()
	dir := path.Dir(sftpPath(s.cfg.OS, s.file.remote))
	ctx, cancel := context.WithTimeout(ctx, agentGone)
	defer cancel()
	for {
		err := removeAgents(c, dir)
		if err == nil {
			return reply, nil
		}
		// Windows keeps the program of a process for a moment after its end.
		if wait.Pause(ctx, 200*time.Millisecond) != nil {
			return reply, &ConnectError{Reason: ReasonAgent, Host: s.way.name,
				Summary: "the agent's program cannot be removed", Detail: err.Error(), Err: err,
				Remedy: "everything else is done; delete the folder .nodejoin in the home folder of the user that logs in"}
		}
	}
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
