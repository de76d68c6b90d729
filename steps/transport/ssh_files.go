package transport

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// SSHFiles are the known_hosts files and private keys of many connections. A file is parsed once, and again when it
// has changed: to parse a known_hosts file of 1,000 machines for each of them would take longer than to log in. A nil
// pointer parses for each connection. It is safe for concurrent use.
type SSHFiles struct {
	mu    sync.Mutex // also held while a file is parsed: others want the same
	known map[string]parsedHosts
	keys  map[[2]string]parsedKey // by path and passphrase
}

type parsedHosts struct {
	of []fileState
	db *knownhosts.HostKeyDB
}

type parsedKey struct {
	of     fileState
	signer ssh.Signer
	err    error // of parsing
}

// fileState changes with a file.
type fileState struct {
	size    int64
	changed time.Time
}

func stateOf(path string) (fileState, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return fileState{}, err
	}
	return fileState{fi.Size(), fi.ModTime()}, nil
}

// knownHosts are the keys in those of the files that exist.
func (f *SSHFiles) knownHosts(paths []string) (*knownhosts.HostKeyDB, error) {
	var files []string
	var states []fileState
	for _, path := range paths {
		switch s, err := stateOf(path); {
		case err == nil:
			files, states = append(files, path), append(states, s)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	if f == nil {
		f = new(SSHFiles)
	}
	name := strings.Join(files, "\x00")
	f.mu.Lock()
	defer f.mu.Unlock()
	if p, ok := f.known[name]; ok && slices.Equal(p.of, states) {
		return p.db, nil
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, err
	}
	if f.known == nil {
		f.known = map[string]parsedHosts{}
	}
	f.known[name] = parsedHosts{states, db}
	return db, nil
}

// key reads a private key, with a passphrase if there is one.
func (f *SSHFiles) key(path, passphrase string) (ssh.Signer, error) {
	if f == nil {
		f = new(SSHFiles)
	}
	state, err := stateOf(path)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	name := [2]string{path, passphrase}
	if p, ok := f.keys[name]; ok && p.of == state {
		return p.signer, p.err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := parsedKey{of: state}
	if passphrase == "" {
		p.signer, p.err = ssh.ParsePrivateKey(text)
	} else {
		p.signer, p.err = ssh.ParsePrivateKeyWithPassphrase(text, []byte(passphrase))
	}
	if f.keys == nil {
		f.keys = map[[2]string]parsedKey{}
	}
	f.keys[name] = p
	return p.signer, p.err
}
