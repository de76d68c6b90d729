package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/agentbin"
	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
)

// AgentSource gives the agent for a machine: a file of the controller and its
// sha256 in lower-case hex. agentbin.Get is one.
type AgentSource func(ctx context.Context, os, arch string) (path, sha256 string, err error)

// agentLookup is the agent of a machine, which is looked up, and where needed built, while the connection is made.
type agentLookup struct {
	target Target
	stop   context.CancelFunc
	done   chan struct{}
	file   agentFile
	err    error
}

func (a AgentSource) lookUp(ctx context.Context, c Target) *agentLookup {
	ctx, cancel := context.WithCancel(ctx)
	l := &agentLookup{target: c, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		path, digest, err := a(ctx, c.OS, c.Arch)
		l.file, l.err = newAgentFile(c, path, digest), err
	}()
	return l
}

func (l *agentLookup) cancel() {
	l.stop()
	<-l.done
}

// wait waits for the agent of the machine of this name.
func (l *agentLookup) wait(ctx context.Context, name string) (agentFile, error) {
	<-l.done
	l.stop()
	switch {
	case l.err == nil:
		return l.file, nil
	case ctx.Err() != nil:
		return agentFile{}, context.Cause(ctx)
	case errors.As(l.err, new(*steps.Error)):
		return agentFile{}, ofController(l.err)
	}
	return agentFile{}, &ConnectError{Reason: ReasonAgent, Host: name, Summary: "no agent for this machine",
		Detail: fmt.Sprintf("%s/%s: %v", l.target.OS, l.target.Arch, l.err), Err: l.err}
}

// agentFile is the agent on both sides.
type agentFile struct {
	os     string
	local  string // path on the controller
	digest string // sha256, lower-case hex
	remote string // path on the machine, with the digest in its name
	temp   string // begin of the names of files while the agent is brought there: two controllers may do so at once
	data   string // nodejoin's folder on the machine, and where the plan names one an adapter on a second line
	posix  bool   // the user's shell takes a backslash for a quote
	placed bool   // it was sent by SFTP, so no shell waits for it
	// outside: the end of the user's shell kills what is in it, so the agent runs outside (agent.Outside).
	outside bool
}

// open opens the agent on the controller, in a form of agentbin; "" = unpacked. size is in bytes. Where there is none
// of this form the error is fs.ErrNotExist.
func (a agentFile) open(form string) (f *os.File, size int64, err error) {
	if form == "" {
		err = agentbin.Unpack(a.local, a.digest)
	} else {
		err = agentbin.Offer(a.local, a.digest, form)
	}
	if err != nil {
		return nil, 0, ofController(err)
	}
	if f, err = os.Open(a.local + form); err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, fi.Size(), nil
}

// first opens the agent in the first of these forms that there is.
func (a agentFile) first(forms []string) (f *os.File, size int64, form string, err error) {
	for _, form = range forms {
		if f, size, err = a.open(form); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return f, size, form, err
}

// agentFolder is where agents lie, relative to the home folder of the user that
// logs in: SFTP and commands of SSH servers start there. It is not in the data
// folder, because what is first run there must not be something that another user
// of the machine could have put in its place, as any user can below
// C:\ProgramData.
var agentFolder = []string{".nodejoin", "agent"}

func newAgentFile(c Target, local, digest string) agentFile {
	name := wire.AgentPrefix + digest[:min(16, len(digest))]
	if c.OS == "windows" {
		name += ".exe"
	}
	data := c.DataDir
	if c.Interface != "" {
		data += "\n" + c.Interface
	}
	remote := host.Join(c.OS, append(slices.Clone(agentFolder), name)...)
	return agentFile{os: c.OS, local: local, digest: digest, remote: remote, data: data,
		temp: remote + "." + strings.ToLower(rand.Text()[:8])}
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
	mode := " serve "
	if a.outside {
		mode = " outside "
	}
	return program + mode + hex.EncodeToString([]byte(a.data))
}

// receive is the command line that has the agent's program write parts of an artifact.
func (a agentFile) receive(digest string, size int64) string {
	return fmt.Sprintf("%s receive %s %s %d", a.remote, hex.EncodeToString([]byte(a.data)), digest, size)
}

// line is the command line that starts the agent where it is there. Else a Linux machine says so, waits for the packed
// agent, unpacks and starts it. So one without the agent costs one round trip more, and its bytes.
func (a agentFile) line(b *Become) string {
	switch {
	case a.os != "linux":
		return a.serve()
	case a.placed && b != nil:
		return fmt.Sprintf("sh -c '%s; %s'", a.become(b), notThere)
	case a.placed:
		return a.serve()
	}
	there := fmt.Sprintf("[ -x %s ] && exec %s", a.remote, a.serve())
	if b != nil {
		there = `h=$PWD; ` + a.become(b) + `; cd "$h" || exit 127`
	}
	return fmt.Sprintf("sh -c '%s; %s'", there, a.sent(b))
}

// notThere is a script for where become does not start the agent.
const notThere = "echo the agent is not there as it was sent >&2; exit 127"

// waitingLine is line without its first part: the agent that is there is another one, or does not start.
func (a agentFile) waitingLine(b *Become) string { return fmt.Sprintf("sh -c '%s'", a.sent(b)) }

// become is a script that starts the agent as the user who logs in and has it run itself with root's rights. Nothing
// that others could have put in the agent's place is started: the shell goes into the folder, which nobody can
// exchange any more then, and looks at its owner and access, then at those of the program and at its digest.
func (a agentFile) become(b *Become) string {
	name := path.Base(a.remote)
	args := b.Method + " " + hex.EncodeToString([]byte(a.data))
	if b.PasswordEnv != "" {
		args += " password"
	}
	// A folder in one that has set-group-ID has it, too.
	return fmt.Sprintf(`cd ./%s 2>/dev/null && u=$(id -u) && `+
		`case $(stat -c %%u:%%a .) in $u:700|$u:2700) ;; *) false ;; esac && `+
		`[ -f %s ] && [ ! -L %s ] && [ "$(stat -c %%u:%%a %s)" = $u:700 ] && `+
		`echo "%s  %s" | sha256sum -c >/dev/null 2>&1 && exec ./%s become %s`,
		path.Dir(a.remote), name, name, name, a.digest, name, name, args)
}

// leftoverAge is when what is being sent or was replaced is nobody's any more.
const leftoverAge = time.Hour

// sent is a script that waits for the packed agent, unpacks and starts it.
func (a agentFile) sent(b *Become) string {
	// zstd has compared its checksum, so the agent looks at the packed file alone, in a third of the time that its own
	// digest takes. Not every tar compares that of gzip (libarchive's does not).
	run := fmt.Sprintf("if [ $f = %[1]s ]; then exec %[2]s 0 %[3]s %[4]s $s; else rm -f %[4]s; exec %[2]s 0 %[3]s; fi",
		agentbin.Zstd, a.serve(), a.digest, a.packed())
	if b != nil {
		run = fmt.Sprintf("rm -f %s && %s; %s", a.packed(), a.become(b), notThere)
	}
	// read of a POSIX shell takes no byte after the line from a pipe (POSIX.1-2017, XCU read).
	// A dd with fullblock reads exactly the announced line. One without it fails before it reads, and the loop reads the
	// line instead.
	return fmt.Sprintf(`command -v zstd >/dev/null 2>&1 && echo %s || echo %s; n=; while read -r w n f s; do `+
		`[ "$w" = %s ] && break; [ "$f$s" = %s ] && dd bs=$n count=1 iflag=fullblock >/dev/null 2>&1; n=; done; `+
		`[ "$n" ] || exit 127; (%s) && %s`,
		wire.NoAgentZstd, wire.NoAgent, wire.PackedFollows, wire.AnnouncementEnd, a.unpack(), run)
}

// packed is the path on the machine of what the agent is unpacked from.
func (a agentFile) packed() string { return a.temp + ".p" + wire.Leftover }

// unpack is a script that reads n bytes, the packed agent of the form f, and puts the agent in its place, with all
// that push does for the folder. The packed file stays. Where it fails, push comes next, and says what is wrong.
func (a agentFile) unpack() string {
	dir := path.Dir(a.remote)
	// Single quotes around it all and none within; paths without blanks. test -O is no POSIX, but all shells of Linux
	// have it. Programs are what it costs, so it starts few. Who could write into the folder until now may have put a
	// link there, so both files are made first, where there is nothing; set -C alone follows a link to a device.
	// What comes is put into a file first, as fast as it comes: OpenSSH copies all that it holds back with each packet,
	// as its buffer grows by 256 bytes. And tar starts one program less for a file. dd empties a pipe at once, head 8
	// KiB of it. A dd without count_bytes and fullblock (GNU coreutils 8.16) reads nothing, and counts no records; one
	// that cannot write does. busybox's head may read, and so lose, what comes after the archive: before the hello, that
	// is at most a ping. zstd needs a tenth less of the processor without threads of its own; one older than 1.5.4 has
	// none, and does not know the option.
	return fmt.Sprintf(`umask 077; set -C; o=; for d in %[1]s %[2]s; do if [ -d $d ]; then o=$d; `+
		`else mkdir -m 700 $d && continue; fi; [ ! -L $d ] && [ -O $d ] && chmod 700 $d || exit 1; done; `+
		`[ "$o" = %[2]s ] && find %[2]s -name "%[3]s*%[4]s" -mmin +%[5]d -prune -exec rm -rf {} + 2>/dev/null; `+
		`for x in %[7]s %[9]s; do [ ! -e $x ] && [ ! -L $x ] && true >$x || exit 1; done; echo %[6]s; `+
		`case $(LC_ALL=C dd bs=64k count=$n iflag=count_bytes,fullblock 2>&1 >|%[7]s) in `+
		`*"records out"*) ;; *) [ -s %[7]s ] || head -c $n >|%[7]s;; esac && if [ $f = %[8]s ]; then `+
		`zstd -dcq --no-asyncio %[7]s >|%[9]s 2>/dev/null || zstd -dcq %[7]s >|%[9]s; `+
		`else tar -xzOf %[7]s >|%[9]s; fi && [ -s %[9]s ] && chmod 700 %[9]s && mv -f %[9]s %[10]s || `+
		`{ rm -f %[7]s %[9]s; exit 1; }`,
		path.Dir(dir), dir, wire.AgentPrefix, wire.Leftover, int(leftoverAge.Minutes()), wire.PackedTaken, a.packed(),
		agentbin.Zstd, a.temp+wire.Leftover, a.remote)
}
