//go:build !windows

package transport

import (
	"cmp"
	"context"
	"net"
	"os"
)

// DialAgent connects to the ssh-agent at path, "" = the usual one; nil without an error where there is none.
func DialAgent(ctx context.Context, path string) (net.Conn, error) {
	path = cmp.Or(path, os.Getenv("SSH_AUTH_SOCK"))
	if path == "" {
		return nil, nil
	}
	return new(net.Dialer).DialContext(ctx, "unix", path)
}
