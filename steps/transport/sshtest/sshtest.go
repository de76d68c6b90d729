// Package sshtest is the part of an SSH server of tests that runs things on this machine, as
// sshd does.
package sshtest

import (
	"errors"
	"io"
	"net"
	"os/exec"

	gssh "github.com/gliderlabs/ssh"
	"github.com/pkg/sftp"
)

// Run runs the session's command line in a folder, by the user's shell.
func Run(s gssh.Session, dir string) { RunLine(s, dir, s.RawCommand()) }

// RunLine runs another command line in its place.
func RunLine(s gssh.Session, dir, line string) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Stdout, cmd.Stderr, cmd.Dir = s, s.Stderr(), dir
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = s.Exit(127)
		return
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_, _ = io.Copy(in, s)
		_ = in.Close()
	}()
	_ = cmd.Wait()
	_ = s.Exit(cmd.ProcessState.ExitCode())
	_ = s.Close()
	<-fed
}

// ServeSFTP is the SFTP subsystem; paths are relative to a folder.
func ServeSFTP(s gssh.Session, dir string) {
	srv, err := sftp.NewServer(s, sftp.WithServerWorkingDirectory(dir))
	if err == nil {
		_ = srv.Serve()
		_ = srv.Close()
	}
}

// Serve starts a server, and returns what ends it and waits for its end. It closes the listener itself, as a server
// that is closed before it listens would wait for connections without end.
func Serve(srv *gssh.Server, l net.Listener) (stop func() error) {
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	return func() error {
		_ = srv.Close() // also ends its connections
		_ = l.Close()
		if err := <-done; !errors.Is(err, gssh.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}
