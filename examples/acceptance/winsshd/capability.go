package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	gossh "golang.org/x/crypto/ssh"
)

// folder is that of Microsoft's server.
const folder = `C:\ProgramData\ssh`

// asInstalled are the options of the server that Windows' capability installs, which gets no arguments. When it first
// starts it makes its folder, its configuration from the default beside it, and its host key.
func asInstalled() (options, error) {
	o := options{user: "Administrator", hostKey: folder + `\ssh_host_ed25519_key`,
		authorizedKeys: folder + `\administrators_authorized_keys`}
	program, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err != nil {
		return o, err
	}
	config, err := os.ReadFile(folder + `\sshd_config`)
	if errors.Is(err, fs.ErrNotExist) {
		if config, err = os.ReadFile(filepath.Join(filepath.Dir(program), "sshd_config_default")); err == nil {
			err = os.WriteFile(folder+`\sshd_config`, config, 0o644)
		}
	}
	if err != nil {
		return o, err
	}
	for line := range strings.Lines(string(config)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "ListenAddress" {
			o.listen = value
		}
	}
	return o, makeHostKey(o.hostKey)
}

// makeHostKey makes the private and the public file of a host key, unless they are there.
func makeHostKey(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := gossh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	public, err := gossh.NewPublicKey(private.Public())
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, pem.EncodeToMemory(block), 0o600),
		os.WriteFile(path+".pub", gossh.MarshalAuthorizedKey(public), 0o644))
}
