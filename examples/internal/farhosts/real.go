//go:build linux

package farhosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// startReal starts an OpenSSH server and returns its port at this end of the link.
func (b *Bed) startReal(ctx context.Context, h Host) (port int, err error) {
	free, err := b.listen(ctx, "127.0.0.1")
	if err != nil {
		return 0, err
	}
	target := free.Addr().String()
	dir := b.opt.Dir
	root, config := filepath.Join(dir, h.Name), filepath.Join(dir, h.Name+".sshd")
	err = errors.Join(free.Close(), os.MkdirAll(filepath.Join(root, "srv"), 0o755), os.MkdirAll(filepath.Join(root,
		"root"), 0o700), os.WriteFile(config, fmt.Appendf(nil, "ListenAddress %s\nHostKey %s/host\nAuthorizedKeysFile "+
		"%[2]s/user.pub\nStrictModes no\nPidFile none\nPermitRootLogin yes\nUsePAM no\nLogLevel FATAL\n"+
		"Subsystem sftp internal-sftp\n", target, dir), 0o600))
	if err != nil {
		return 0, err
	}
	// Its /root and /srv are its own, and what it runs ends with it.
	sshd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
		"sh", "-ec", `mount --bind "$1/srv" /srv; mount --bind "$1/root" /root; mount -t tmpfs none /run; mkdir /run/sshd; `+
			`exec /usr/sbin/sshd -D -e -f "$2"`, "sh", root, config)
	sshd.Dir, sshd.Stderr = "/", os.Stderr
	sshd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := sshd.Start(); err != nil {
		return 0, err
	}
	b.servers = append(b.servers, sshd)
	if err := answers(ctx, target); err != nil {
		return 0, err
	}
	return b.front(ctx, target)
}
