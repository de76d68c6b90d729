package transport

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/wire"
)

// stream sends the packed agent to a Linux machine and starts it, all on one channel, which takes one round trip more
// than the start alone; push takes about 25. It is false where there is no packed agent, and so nothing was started.
// Whether the machine has unpacked it shows in the hello of the agent, which says the digest of its file.
func (s *sshConn) stream(ctx context.Context) (bool, error) {
	if s.cfg.OS != "linux" {
		return false, nil
	}
	f, size, err := s.file.open(agentbin.PackedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	alive, rest := s.watch("send the agent")
	defer rest()
	stop := context.AfterFunc(ctx, func() { s.lose(context.Cause(ctx)) })
	defer stop()
	p, err := start(s.way.last(), s.file.unpack(size)+" && "+s.file.line(s.become))
	if err != nil {
		return false, err
	}
	m := &meter{ctx: ctx, r: f, total: size, alive: alive}
	n, err := io.Copy(p, m)
	if m.err == nil && err == nil && n != size {
		m.err = fmt.Errorf("%d of %d bytes were read: %w", n, size, io.ErrUnexpectedEOF)
	}
	if m.err != nil {
		_ = p.Close()
		return false, m.err
	}
	// A machine that did not take all of it has refused it, or the connection is lost. ready sees both.
	s.started(p)
	return true, nil
}

// unpack is a command line that reads size bytes, the packed agent, and puts the agent in its place, with all that
// push does for the folder. Where it fails, push comes next, and says what is wrong.
func (a agentFile) unpack(size int64) string {
	dir, name := path.Dir(a.remote), path.Base(a.remote)
	temp := dir + "/" + name + "." + strings.ToLower(rand.Text()[:8]) + wire.Leftover
	// Single quotes around it all and none within; paths without blanks. -o: the file is the user's; -m: it is of now.
	// tar may leave bytes behind the archive's end, and the agent must not get them. busybox's head may read, and so
	// lose, what comes after the archive: before the hello, that is at most a ping.
	return fmt.Sprintf(`sh -c 'umask 077; for d in %[1]s %[2]s; do [ -d $d ] || [ -L $d ] || mkdir $d; `+
		`[ ! -L $d ] && [ "$(stat -c %%u $d)" = "$(id -u)" ] && chmod 700 $d || exit 1; done; `+
		`find %[2]s -name "%[5]s*%[6]s" -mmin +%[7]d -prune -exec rm -rf {} + 2>/dev/null; `+
		`mkdir %[3]s && head -c %[4]d | (tar -xozmf - -C %[3]s; r=$?; cat >/dev/null; exit $r) && `+
		`[ -f %[3]s/%[8]s ] && [ ! -L %[3]s/%[8]s ] && chmod 700 %[3]s/%[8]s && mv -f %[3]s/%[8]s %[2]s/%[9]s; `+
		`r=$?; rm -rf %[3]s; exit $r'`,
		path.Dir(dir), dir, temp, size, wire.AgentPrefix, wire.Leftover, int(leftoverAge.Minutes()), agentbin.PackedName,
		name)
}

// bring sends the agent and starts it: on one channel, or by SFTP where that was tried or cannot be. pushed says that
// it was SFTP.
func (s *sshConn) bring(ctx context.Context, tried bool) (pushed bool, err error) {
	if !tried {
		s.cfg.Notify("pushing_agent", s.file.remote)
		if begun, err := s.stream(ctx); begun || err != nil {
			return false, err
		}
	}
	if err := s.push(ctx); err != nil {
		return false, err
	}
	return true, s.start(ctx)
}
