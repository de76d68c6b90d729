// Winsshd is an SSH server for Windows, for tests: it runs commands through cmd.exe /c as Win32-OpenSSH does
// with its default shell, and offers SFTP. It exists because OpenSSH for Windows does not run under Wine.
package main

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/gliderlabs/ssh"
	"github.com/pkg/sftp"
)

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to listen on")
	flag.StringVar(&o.portFile, "port-file", "", "file that gets the port, once the server listens")
	flag.StringVar(&o.hostKey, "host-key", "", "file of the host key")
	flag.StringVar(&o.authorizedKeys, "authorized-keys", "", "file of the keys that may log in")
	flag.StringVar(&o.user, "user", "Administrator", "the one user")
	flag.StringVar(&o.password, "password", "", "password of the user; none = no login by password")
	flag.Parse()
	if err := o.serve(); err != nil {
		log.Fatal(err)
	}
}

type options struct {
	listen, portFile, hostKey, authorizedKeys, user, password string
}

func (o *options) serve() error {
	keys, err := authorized(o.authorizedKeys)
	if err != nil {
		return err
	}
	server := &ssh.Server{
		Handler:           command,
		SubsystemHandlers: map[string]ssh.SubsystemHandler{"sftp": files},
		PublicKeyHandler: func(ctx ssh.Context, key ssh.PublicKey) bool {
			if ctx.User() != o.user {
				return false
			}
			for _, k := range keys {
				if ssh.KeysEqual(k, key) {
					return true
				}
			}
			return false
		},
	}
	if o.password != "" {
		server.PasswordHandler = func(ctx ssh.Context, password string) bool {
			return ctx.User() == o.user && subtle.ConstantTimeCompare([]byte(password), []byte(o.password)) == 1
		}
	}
	if err := server.SetOption(ssh.HostKeyFile(o.hostKey)); err != nil {
		return fmt.Errorf("host key: %w", err)
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	if o.portFile != "" {
		// Moved into place, so that a reader never sees half a number.
		part := o.portFile + ".part"
		if err := os.WriteFile(part, []byte(fmt.Sprint(l.Addr().(*net.TCPAddr).Port)), 0o644); err != nil {
			return err
		}
		if err := os.Rename(part, o.portFile); err != nil {
			return err
		}
	}
	return server.Serve(cutBySwitch(l))
}

func authorized(file string) ([]ssh.PublicKey, error) {
	if file == "" {
		return nil, nil
	}
	rest, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var keys []ssh.PublicKey
	for len(bytes.TrimSpace(rest)) > 0 {
		var key ssh.PublicKey
		if key, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// endWait bounds the wait for output after a command has exited: processes that it left behind may keep its
// output open.
const endWait = 2 * time.Second

// command runs what the client asks for. When the connection ends, the command's input is closed and the
// command may finish, as under Win32-OpenSSH.
func command(s ssh.Session) {
	if len(s.RawCommand()) == 0 {
		fmt.Fprintln(s.Stderr(), "winsshd: interactive sessions are not offered")
		s.Exit(1)
		return
	}
	cmd := shell(s.RawCommand())
	cmd.Env = append(os.Environ(), "SSH_CONNECTION="+connection(s))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = s, s.Stderr(), endWait
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(s.Stderr(), "winsshd:", err)
		s.Exit(255)
		return
	}
	go func() { // ends with the session, whose channel is closed after Exit
		io.Copy(in, s)
		in.Close()
	}()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		log.Print(err)
		s.Exit(255)
		return
	}
	s.Exit(cmd.ProcessState.ExitCode())
}

// connection returns the value of SSH_CONNECTION as sshd sets it: address and port of both ends.
func connection(s ssh.Session) string {
	client, server := s.RemoteAddr().(*net.TCPAddr), s.LocalAddr().(*net.TCPAddr)
	return fmt.Sprintf("%s %d %s %d", client.IP, client.Port, server.IP, server.Port)
}

func files(s ssh.Session) {
	server, err := sftp.NewServer(s)
	if err != nil {
		log.Print(err)
		return
	}
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		log.Print(err)
	}
	server.Close()
}
