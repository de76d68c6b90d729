//go:build linux

package farhosts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	gssh "github.com/gliderlabs/ssh"

	"nodejoin/steps/artifact"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/transport/agent"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// Call is a mutating call that a cheap host has answered. Err is empty if it was made.
type Call struct {
	Time        time.Time
	Host        string
	Op, Subject string
	Err         string `json:",omitempty"`
	OfNodejoin  bool   `json:",omitempty"` // it is about nodejoin's own folder
}

// starting is the command line that starts an agent if it is there, and else, or where that did not start, waits for
// it, unpacks and starts it.
var starting = regexp.MustCompile(`^sh -c '(?:(\[ -x \S+ \] && exec )\S+ serve [0-9a-f]+; )?.*; ` +
	`\[ "\$n" \] \|\| exit 127; \((umask .*)\) && if \[ \$f = \S+ \]; then ` +
	`exec \.nodejoin/agent/(\S+) serve ([0-9a-f]+) 0 [0-9a-f]+ (\S+) \$s; .*'$`)

// serving is the command line that starts an agent which was sent by SFTP.
var serving = regexp.MustCompile(`^\.nodejoin/agent/(\S+) serve ([0-9a-f]+)$`)

// command is what a command line asks for: the agent that it starts, with nodejoin's folder in hex. Where the agent
// has to be sent first, unpack is the line that unpacks it from size bytes of standard input.
func (b *Bed) command(s gssh.Session, name string) (program, data, unpack, size string, err error) {
	if m := serving.FindStringSubmatch(s.RawCommand()); m != nil {
		return m[1], m[2], "", "", nil
	}
	m := starting.FindStringSubmatch(s.RawCommand())
	if m == nil {
		return "", "", "", "", fmt.Errorf("this host runs agents of nodejoin, and nothing else: %s", s.RawCommand())
	}
	unpack, program, data = m[2], m[3], m[4]
	if m[1] != "" {
		if _, err := b.agent(name, program); err == nil {
			return program, data, "", "", nil
		}
	}
	absent := wire.NoAgent
	if _, err := exec.LookPath("zstd"); err == nil {
		absent = wire.NoAgentZstd
	}
	fmt.Fprintln(s, absent)
	for {
		var line []byte
		for c := make([]byte, 1); !strings.HasSuffix(string(line), "\n"); line = append(line, c...) {
			if _, err := io.ReadFull(s, c); err != nil {
				return "", "", "", "", err
			}
		}
		if f := strings.Fields(string(line)); len(f) == 4 && f[0] == wire.PackedFollows {
			// The agent itself would remove the packed file.
			return program, data, fmt.Sprintf("n=%s; f=%s; (%s) && rm %s", f[1], f[2], unpack, m[5]), f[1], nil
		}
	}
}

// serveCheap makes the SSH server of all cheap hosts. It takes any key.
func (b *Bed) serveCheap(ctx context.Context) {
	b.cheap = &gssh.Server{
		PublicKeyHandler: func(gssh.Context, gssh.PublicKey) bool { return true },
		Handler:          func(s gssh.Session) { b.session(ctx, s) },
		SubsystemHandlers: map[string]gssh.SubsystemHandler{"sftp": func(s gssh.Session) {
			name, ok := b.at(s)
			if !ok {
				_ = s.Exit(1)
				return
			}
			sshtest.ServeSFTP(s, b.home(name))
		}},
	}
	b.cheap.AddHostKey(b.signer)
}

// startCheap returns the port of a cheap host at this end of the link.
func (b *Bed) startCheap(ctx context.Context, h Host) (port int, err error) {
	address := b.opt.Address
	if b.opt.Link != nil {
		address = "127.0.0.1"
	}
	l, err := b.listen(ctx, address)
	if err != nil {
		return 0, err
	}
	for _, dir := range []string{b.home(h.Name), b.path(agents)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return 0, err
		}
	}
	port = l.Addr().(*net.TCPAddr).Port
	b.ports.Store(port, h.Name)
	b.serving.Go(func() { _ = b.cheap.Serve(l) }) // until it is closed
	if b.opt.Link != nil {
		return b.front(ctx, l.Addr().String())
	}
	return port, nil
}

// agents is the folder of the agents that cheap hosts were sent.
const agents = "agents"

// home is the folder of the user who logs in to a cheap host. It is not in its sandbox, whose files are the machine's.
func (b *Bed) home(name string) string { return b.path(filepath.Join("homes", name)) }

// at is the host that a session is with.
func (b *Bed) at(s gssh.Session) (name string, ok bool) {
	at, ok := b.ports.Load(s.LocalAddr().(*net.TCPAddr).Port)
	if !ok {
		return "", false
	}
	return at.(string), true
}

// Sandbox opens the machine of a cheap host; data is nodejoin's folder there, and may be empty.
func (b *Bed) Sandbox(ctx context.Context, name, data string) (*sandbox.Host, error) {
	return sandbox.Open(ctx, sandbox.Config{Path: b.path(name), OS: "linux", Hostname: name, DataDir: data})
}

// session starts an agent, which is this process. It runs nothing else: an agent of its own would change this machine.
func (b *Bed) session(ctx context.Context, s gssh.Session) {
	name, ok := b.at(s)
	if !ok {
		_ = s.Exit(1)
		return
	}
	program, data, unpack, size, err := b.command(s, name)
	if err != nil {
		fmt.Fprintln(s.Stderr(), err)
		_ = s.Exit(notFound)
		return
	}
	err = b.unpack(ctx, s, name, unpack, size)
	var digest string
	if err == nil {
		digest, err = b.agent(name, program)
	}
	if errors.Is(err, os.ErrNotExist) {
		_ = s.Exit(notFound)
		return
	}
	if err == nil {
		err = b.serve(ctx, s, name, program, digest, data)
	}
	code := 0
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		fmt.Fprintln(s.Stderr(), err)
		code = 1
	}
	_ = s.Exit(code)
}

// notFound is the exit status of a shell that finds no program.
const notFound = 127

// unpack runs the command line that unpacks an agent, with the bytes that are for it.
func (b *Bed) unpack(ctx context.Context, s gssh.Session, name, line, size string) error {
	if line == "" {
		return nil
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.home(name), io.LimitReader(s, n), s, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("unpack the agent: %w\n%s", err, said.String())
	}
	return nil
}

// agent is the sha256 of the agent that was sent to a host. What one host was sent is on all others, too, so that many
// hosts cost little: each has a link of its own to the same file, and none changes what is another's.
func (b *Bed) agent(name, program string) (digest string, err error) {
	own, shared := filepath.Join(b.home(name), ".nodejoin", "agent", program), b.path(filepath.Join(agents, program))
	if _, err := os.Lstat(own); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
			return "", err
		}
		if err := os.Link(shared, own); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	if d, ok := b.agents.Load(program); ok {
		return d.(string), nil
	}
	f, err := os.Open(own)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	digest = hex.EncodeToString(h.Sum(nil))
	if !strings.Contains(program, digest[:16]) { // it is another file
		return digest, nil
	}
	if err := os.Link(own, shared); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	b.agents.Store(program, digest)
	return digest, nil
}

// serve is the agent on a cheap host. The lock of the machine's runs is beside the sandbox. The program that was sent
// is in the sandbox, too: plans install it.
func (b *Bed) serve(ctx context.Context, s gssh.Session, name, program, digest, dataHex string) error {
	raw, err := hex.DecodeString(dataHex)
	if err != nil {
		return err
	}
	data, _, _ := strings.Cut(string(raw), "\n")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.Context(), cancel)() //nolint:contextcheck // the first that ends counts
	box, err := b.Sandbox(ctx, name, data)
	if err != nil {
		return err
	}
	own := "/root/.nodejoin/agent/" + program
	at := filepath.Join(b.path(name), own)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	err = os.Link(filepath.Join(b.home(name), ".nodejoin", "agent", program), at)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	h := host.Around(box, func(op, subject string, call func() error) error {
		err := call()
		if b.opt.Called != nil {
			c := Call{Time: time.Now(), Host: name, Op: op, Subject: subject}
			c.OfNodejoin = strings.HasPrefix(subject, box.LockDir()) || subject == data ||
				strings.HasPrefix(subject, data+"/")
			if err != nil {
				c.Err = err.Error()
			}
			b.opt.Called(c)
		}
		return err
	})
	return agent.Serve(ctx, s, s, agent.Options{Host: h, DataDir: box.LockDir(),
		Artifacts: artifact.New(artifact.Options{MachineEnv: box.MachineEnv,
			BlobDir: agent.BlobDir("linux", filepath.Join(b.path(name), box.LockDir()))}), Program: own,
		Hello: wire.Hello{Protocol: wire.Protocol, Version: "cheap", OS: "linux", Arch: "amd64", Digest: digest}})
}
