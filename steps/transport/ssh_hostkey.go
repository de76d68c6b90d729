package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys verifies the key of one server: against a pin, else known_hosts files.
type hostKeys struct {
	hop        hop
	pin        string        // "SHA256:..." when set
	pinKey     ssh.PublicKey // with pin: the whole key, where it is known
	db         *knownhosts.HostKeyDB
	acceptNew  bool
	algorithms []string // to ask the server for, best first
	seen       ssh.PublicKey
	verified   bool
}

// keyAlgorithms are asked for when nothing is known of the server, best first.
// Algorithms that the library considers insecure are left out.
var keyAlgorithms = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512,
	ssh.KeyAlgoRSASHA256,
}

func newHostKeys(c SSHConfig, h hop) (*hostKeys, error) {
	k := &hostKeys{hop: h, acceptNew: c.AcceptNew, algorithms: keyAlgorithms}
	if h.pin != "" {
		return k, k.setPin(h.pin)
	}
	db, err := c.Files.knownHosts(h.knownHosts)
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return nil, keyError(h, "known_hosts cannot be read", err.Error(),
			"fix the file's access, or pin the host key in the plan", err)
	}
	if err != nil {
		return nil, keyError(h, "known_hosts cannot be read", err.Error(),
			"fix the line it names, or pin the host key in the plan", err)
	}
	k.db = db
	if known := db.HostKeyAlgorithms(h.addr()); len(known) > 0 {
		k.algorithms = known
	}
	return k, nil
}

func (k *hostKeys) setPin(pin string) error {
	pin = strings.TrimSpace(pin)
	if strings.HasPrefix(pin, "SHA256:") {
		k.pin = strings.TrimRight(pin, "=")
		return nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(pin))
	if err != nil {
		return &ConnectError{Reason: ReasonHostKey, Host: k.hop.name(), Summary: "the pinned host key cannot be read",
			Detail: err.Error(), Err: err,
			Remedy: `write it as "ssh-ed25519 AAAA..." or "SHA256:..."; ssh-keyscan and ssh-keygen -l print them`}
	}
	k.pin, k.pinKey = ssh.FingerprintSHA256(key), key
	k.algorithms = algorithmsOf(key.Type())
	return nil
}

// algorithmsOf are the signature algorithms of a type of key.
func algorithmsOf(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

// without leaves out the algorithms of a type of key.
func without(algorithms []string, keyType string) []string {
	not := algorithmsOf(keyType)
	return slices.DeleteFunc(slices.Clone(algorithms), func(a string) bool { return slices.Contains(not, a) })
}

// check is the ssh.HostKeyCallback.
func (k *hostKeys) check(addr string, remote net.Addr, key ssh.PublicKey) error {
	k.seen = key
	if k.pin != "" {
		if k.pinKey != nil && !bytes.Equal(k.pinKey.Marshal(), key.Marshal()) || k.pin != ssh.FingerprintSHA256(key) {
			return k.mismatch("the plan's "+k.hop.pinAt, k.pin)
		}
		k.verified = true
		return nil
	}
	err := k.db.HostKeyCallback()(addr, remote, key)
	var ke *xknownhosts.KeyError
	var re *xknownhosts.RevokedError
	switch {
	case err == nil:
		k.verified = true
		return nil
	case errors.As(err, &re):
		return &ConnectError{Reason: ReasonHostKey, Host: k.hop.name(), Summary: "revoked host key", Err: err,
			Detail: fmt.Sprintf("%s shows a key that %s:%d revokes", addr, re.Revoked.Filename, re.Revoked.Line)}
	case errors.As(err, &ke) && len(ke.Want) > 0:
		w := ke.Want[0]
		return k.mismatch(fmt.Sprintf("%s:%d", w.Filename, w.Line), ssh.FingerprintSHA256(w.Key))
	case errors.As(err, &ke) && k.acceptNew:
		if err := k.note(addr, remote, key); err != nil {
			return keyError(k.hop, "the new host key cannot be noted", err.Error(),
				"fix the access of the known_hosts file, or pin the key in the plan", err)
		}
		k.verified = true
		return nil
	case errors.As(err, &ke):
		return &ConnectError{Reason: ReasonUnknownHost, Host: k.hop.name(), Summary: "unknown host key", Err: err,
			Detail: fmt.Sprintf("no key of %s is known; it shows %s %s", addr, key.Type(), ssh.FingerprintSHA256(key)),
			Remedy: fmt.Sprintf("compare the fingerprint on the machine itself (ssh-keygen -lf "+
				"ssh_host_ed25519_key.pub), then set %s in the connection, add it to known_hosts, or set "+
				"accept_new = true", k.hop.pinAs(ssh.FingerprintSHA256(key)))}
	}
	return keyError(k.hop, "known_hosts cannot be used", err.Error(), "", err)
}

func (k *hostKeys) mismatch(where, want string) error {
	return &ConnectError{Reason: ReasonHostKey, Host: k.hop.name(), Summary: "the host key has changed",
		Detail: fmt.Sprintf("%s shows %s %s, but %s has %s; either the machine was reinstalled, or someone answers "+
			"in its place", k.hop.addr(), k.seen.Type(), ssh.FingerprintSHA256(k.seen), where, want),
		Remedy: "compare the fingerprint on the machine itself; if it is right, fix the line named above", Err: errHostKey}
}

var errHostKey = errors.New("the host key is not the known one")

// noCommon is the error of a server that has no key of a known type.
func (k *hostKeys) noCommon(err error) error {
	where := strings.Join(k.hop.knownHosts, ", ")
	if k.pin != "" {
		where = "the plan's " + k.hop.pinAt
	}
	return &ConnectError{Reason: ReasonHostKey, Host: k.hop.name(), Summary: "the host key has changed", Err: err,
		Detail: fmt.Sprintf("%s has no key of the kind that %s names: %v", k.hop.addr(), where, err),
		Remedy: "compare the machine's keys on the machine itself, then correct the pin or the known_hosts file"}
}

// note adds the key to the first known_hosts file, in one write.
func (k *hostKeys) note(addr string, remote net.Addr, key ssh.PublicKey) error {
	path := k.hop.knownHosts[0]
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if fi, err := f.Stat(); err == nil && fi.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, fi.Size()-1); err == nil && last[0] != '\n' {
			line.WriteByte('\n')
		}
	}
	err = knownhosts.WriteKnownHost(&line, addr, remote, key)
	if err == nil {
		_, err = f.Write(line.Bytes())
	}
	return errors.Join(err, f.Close())
}

func keyError(h hop, summary, detail, remedy string, err error) error {
	return &ConnectError{Reason: ReasonKey, Host: h.name(), Summary: summary, Detail: detail, Remedy: remedy, Err: err}
}
