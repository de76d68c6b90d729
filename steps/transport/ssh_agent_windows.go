package transport

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"

	winio "github.com/Microsoft/go-winio"
)

// windowsAgent is the pipe of the ssh-agent that comes with Windows, whose clients need no
// variable (PowerShell/openssh-portable contrib/win32/win32compat/ssh-agent/agent.c).
const windowsAgent = `\\.\pipe\openssh-ssh-agent`

// DialAgent connects to the ssh-agent at path, "" = the usual one; nil without an error where there is none.
func DialAgent(ctx context.Context, path string) (net.Conn, error) {
	path = cmp.Or(path, os.Getenv("SSH_AUTH_SOCK"))
	switch {
	case path == "":
		c, err := winio.DialPipeContext(ctx, windowsAgent)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return c, err
	case strings.HasPrefix(strings.ReplaceAll(path, "/", `\`), `\\.\pipe\`):
		return winio.DialPipeContext(ctx, path)
	}
	return new(net.Dialer).DialContext(ctx, "unix", path)
}
