// Winsshd is an SSH server for Windows, for tests: it runs commands through the default shell as Win32-OpenSSH does,
// with its pipes and its job, and offers SFTP. It exists because OpenSSH for Windows does not run under Wine.
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
	"strconv"

	"github.com/gliderlabs/ssh"
	"github.com/pkg/sftp"
)

// run is the server; it ends the process. Without arguments it is the one that Windows' capability installs.
func run() {
	if len(os.Args) == 1 {
		logTo(`C:\windows\winsshd.log`)
		o, err := asInstalled()
		if err == nil {
			err = o.serve()
		}
		log.Fatal(err)
	}
	var o options
	logFile := flag.String("log", "", "file for what the server says; none = standard error")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to listen on")
	flag.StringVar(&o.portFile, "port-file", "", "file that gets the port, once the server listens")
	flag.StringVar(&o.hostKey, "host-key", "", "file of the host key")
	flag.StringVar(&o.authorizedKeys, "authorized-keys", "", "file of the keys that may log in")
	flag.StringVar(&o.user, "user", "Administrator", "the one user, with \\u escapes")
	flag.StringVar(&o.password, "password", "", "password of the user; none = no login by password")
	flag.Parse()
	if *logFile != "" {
		logTo(*logFile)
	}
	if err := o.serve(); err != nil {
		log.Fatal(err)
	}
}

func logTo(file string) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	log.SetOutput(f)
}

type options struct {
	listen, portFile, hostKey, authorizedKeys, user, password string
}

func (o *options) serve() error {
	user, err := strconv.Unquote(`"` + o.user + `"`)
	if err != nil {
		return fmt.Errorf("-user %s: %w", o.user, err)
	}
	server := &ssh.Server{
		Handler:           command,
		SubsystemHandlers: map[string]ssh.SubsystemHandler{"sftp": files},
		PublicKeyHandler: func(ctx ssh.Context, key ssh.PublicKey) bool {
			if ctx.User() != user {
				return false
			}
			keys, err := authorized(o.authorizedKeys) // at each login, as OpenSSH does
			if err != nil {
				log.Print(err)
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
			return ctx.User() == user && subtle.ConstantTimeCompare([]byte(password), []byte(o.password)) == 1
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
