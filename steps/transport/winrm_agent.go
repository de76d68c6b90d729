package transport

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/wire"
)

// bring has the machine fetch the agent, or sends it, and starts it.
func (s *winrmConn) bring(ctx context.Context, _ bool) (pushed bool, err error) {
	s.cfg.Notify("pushing_agent", s.file.remote)
	if r, p := s.agent(); r.absent.Load() {
		_ = p.Close() // a program that says so goes on, and nobody reads what it prints
	}
	if err := s.push(ctx); err != nil {
		return false, err
	}
	return true, s.start(ctx)
}

// push puts the agent in its place on the machine. It is unpacked beside that first. The next push uses the folder of
// one that was interrupted.
func (s *winrmConn) push(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.lose(context.Cause(ctx)) }) // which ends s.life
	defer stop()
	alive, rest := s.watch("send the agent")
	defer rest()
	temp := s.file.remote + wire.Leftover
	if !s.agentFetched(temp, alive) { //nolint:contextcheck // see stop
		if err := s.sendAgent(temp, alive); err != nil {
			return err
		}
	}
	move := fmt.Sprintf(`move /y %s\%s %s`, temp, agentbin.PackedName, s.file.remote)
	if _, err := s.command(s.life, move, nil); err != nil { //nolint:contextcheck // see stop
		return fmt.Errorf("put the agent in place in %s: %w", s.agentDir(), err)
	}
	// A leave removes it otherwise.
	_, _ = s.command(s.life, "rmdir /s /q "+temp, nil) //nolint:contextcheck // see stop
	return nil
}

// sendAgent sends the agent to tar.exe of the machine. The agent then says the digest of its file, before it is asked
// for anything that changes.
func (s *winrmConn) sendAgent(temp string, alive func()) error {
	in, err := s.file.archive()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	alive()
	if _, err := s.command(s.life, "tar.exe -xozmf - -C "+temp, &living{in, alive}); err != nil {
		return fmt.Errorf("unpack the agent in %s: %w", temp, err)
	}
	return nil
}

// Exit codes of curl that say that there is no way to the controller (curl's manual, EXIT CODES).
const (
	curlNoConnection = 7
	curlTimeout      = 28
)

// agentFetched makes the folder temp and, by the same command line, has the machine's own programs fetch the agent and
// unpack it there: curl.exe, which Windows has since 10.0.17134 and Windows Server 2019, pins the key of this run's
// port, and certutil.exe says the digest of the program. It reports whether the agent is there with its digest. Where
// it is not, the agent is sent: nothing that was fetched has been started.
func (s *winrmConn) agentFetched(temp string, alive func()) bool {
	// mkdir makes the folders above, too. It fails where it is there already.
	line := "mkdir " + temp
	from, err := s.agentSupplier()
	if err != nil {
		_, _ = s.command(s.life, line, nil)
		return false
	}
	serving, over := context.WithCancel(s.life)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = from.supply(serving, from.ask, io.MultiReader(strings.NewReader(from.head), &living{from.file, alive}))
	}()
	packed := temp + `\packed`
	out, err := s.command(s.life, fmt.Sprintf("%s & curl.exe -sSfk --http1.1 --connect-timeout %d --max-time %d "+
		"--pinnedpubkey %s -o %s %s && tar.exe -xozmf %s -C %s && certutil.exe -hashfile %s\\%s SHA256", line,
		curlConnects, curlEnds, from.keyPin, packed, from.url, packed, temp, temp, agentbin.PackedName), nil)
	over()
	<-served
	_ = from.close()
	var ended *exitError
	if errors.As(err, &ended) {
		s.unreached = ended.status == curlNoConnection || ended.status == curlTimeout
	}
	// Some versions write the digest in groups.
	return err == nil && slices.Contains(strings.Split(strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(out,
		"\r", "")), " ", ""), "\n"), s.file.digest)
}

// The bounds of curl.exe, in seconds.
const (
	curlConnects = 3
	curlEnds     = 100
)

// agentSupplier is a port from which curl fetches the agent.
type agentSupplier struct {
	*supplier
	file io.ReadCloser
	ask  string // what a request begins with
	head string // of the answer
	url  string
}

func (s *winrmConn) agentSupplier() (*agentSupplier, error) {
	local, remote, direct := s.path.ends()
	if !direct {
		return nil, errNotFetched
	}
	f, size, err := s.file.open(agentbin.TGZ)
	if err != nil {
		return nil, err // it is packed while it is sent
	}
	from, err := newSupplier(s.life, local, remote)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	token := rand.Text() + rand.Text()
	from.config.MinVersion = tls.VersionTLS12 // curl.exe of Windows Server 2019 and 2022 has no TLS 1.3
	return &agentSupplier{supplier: from, file: f, ask: "GET /" + token + " HTTP/1.1\r\n",
		head: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/gzip\r\nContent-Length: %d\r\n"+
			"Connection: close\r\n\r\n", size),
		url: "https://" + from.listener.Addr().String() + "/" + token}, nil
}

func (a *agentSupplier) close() error { return errors.Join(a.listener.Close(), a.file.Close()) }
