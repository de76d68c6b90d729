package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gliderlabs/ssh"
)

// endWait bounds the wait for output after a command has exited: a service that it started may keep its output open.
const endWait = 2 * time.Second

// process is a running command of a session.
type process struct {
	stdin          io.WriteCloser
	stdout, stderr io.ReadCloser
	wait           func() (code int, err error)
}

// command runs what the client asks for. When the connection ends the command's input ends too, and it is left to
// finish, as under Win32-OpenSSH; when its shell ends, what the shell has started is killed.
func command(s ssh.Session) {
	if len(s.RawCommand()) == 0 {
		fmt.Fprintln(s.Stderr(), "winsshd: interactive sessions are not offered")
		s.Exit(1)
		return
	}
	p, err := start(s.RawCommand(), append(os.Environ(), "SSH_CONNECTION="+connection(s)))
	if err != nil {
		fmt.Fprintln(s.Stderr(), "winsshd:", err)
		s.Exit(255)
		return
	}
	go func() { // ends with the session, whose channel is closed after Exit
		io.Copy(p.stdin, s)
		p.stdin.Close()
	}()
	var out sync.WaitGroup
	// Where the connection is gone, the command gets an error for what it writes.
	out.Go(func() { io.Copy(s, p.stdout); p.stdout.Close() })
	out.Go(func() { io.Copy(s.Stderr(), p.stderr); p.stderr.Close() })
	written := make(chan struct{})
	go func() { out.Wait(); close(written) }()
	code, err := p.wait()
	if err != nil {
		log.Print(err)
		code = 255
	}
	select {
	case <-written:
	case <-time.After(endWait):
	}
	p.stdout.Close()
	p.stderr.Close()
	<-written
	s.Exit(code)
}

// connection returns the value of SSH_CONNECTION as sshd sets it: address and port of both ends.
func connection(s ssh.Session) string {
	client, server := s.RemoteAddr().(*net.TCPAddr), s.LocalAddr().(*net.TCPAddr)
	return fmt.Sprintf("%s %d %s %d", client.IP, client.Port, server.IP, server.Port)
}
