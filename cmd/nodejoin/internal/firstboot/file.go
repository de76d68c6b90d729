// Package firstboot lets a machine join at its first boot, without a controller: the user data for the program that
// sets machines up (cloud-init and others), the access to the cluster that is in it, and the run on the machine.
package firstboot

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// File is what a machine does at its first boot. It has secrets. On disk it is JSON, or that in Base64, which scripts
// of Windows write.
type File struct {
	Version int       `json:"version"`
	Node    string    `json:"node"`
	Expires time.Time `json:"expires"` // of Token and Account
	Bundle  Fetched   `json:"bundle"`
	// Values are those of the plan's variables that the bundle does not have.
	Values      map[string]string `json:"values,omitempty"`
	Environment string            `json:"environment,omitempty"`
	// Server is the API server as the machine reaches it, and CA its certificate authority in PEM; "" = the plan has a
	// simulated cluster.
	Server string `json:"server,omitempty"`
	CA     string `json:"ca,omitempty"`
	// Token is what the machine's kubelet joins with, as kube.BootstrapToken writes it: a certificate of its Node.
	Token string `json:"token"`
	// Account is the token of a ServiceAccount that may do what the run does in the cluster, for this Node.
	Account string `json:"account"`
}

// Fetched is a file that the machine gets from somewhere.
type Fetched struct {
	From   string `json:"from"` // an http(s) address, or an absolute path on the machine
	SHA256 string `json:"sha256"`
}

const fileVersion = 1

// Read reads the file at path.
func Read(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(b)), "")); err == nil {
		b = raw
	}
	f := &File{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("%s: it is not the file of a first boot: %w", path, plain(err))
	}
	switch {
	case f.Version != fileVersion:
		return nil, fmt.Errorf("%s has version %d, but this nodejoin reads version %d", path, f.Version, fileVersion)
	case f.Node == "" || f.Token == "" || f.Account == "" || f.Bundle.From == "" ||
		steps.DigestAlgorithm(f.Bundle.SHA256) != "sha256":
		return nil, fmt.Errorf("%s: it is not complete; write it again with 'nodejoin user-data'", path)
	}
	return f, nil
}

// plain is an error of encoding/json without what it read, which may be secret.
func plain(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is cut or changed at byte %d", syntax.Offset)
	}
	return errors.New("a value has another type")
}

// text is the content of the file.
func (f *File) text() ([]byte, error) {
	b, err := json.Marshal(f)
	return append(b, '\n'), err
}

// place checks --from: an http(s) address or an absolute path of a machine.
func place(from string) error {
	if i := strings.IndexFunc(from, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune("'\"`$<>&|;%", r)
	}); i >= 0 {
		return fmt.Errorf("--from: it must not have %q, which scripts of the machine read in their own way", from[i:i+1])
	}
	if u, err := url.Parse(from); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("--from: give the address of a folder, without a user, %q or %q", "?", "#")
		}
		return nil
	}
	if !filepath.IsAbs(from) && !isWindowsPath(from) {
		return fmt.Errorf("--from %s: it must be an http(s) address, or an absolute path of a folder on the machine", from)
	}
	return nil
}

func isWindowsPath(s string) bool { return len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') }

func isURL(from string) bool {
	u, err := url.Parse(from)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http")
}

// source is where the bundle comes from.
func (f Fetched) source() steps.Source {
	if isURL(f.From) {
		return steps.Source{URL: f.From, SHA256: f.SHA256}
	}
	return steps.Source{File: f.From, SHA256: f.SHA256}
}

// bootstrap is what the machine's kubelet joins with.
func (f *File) bootstrap() kube.BootstrapToken {
	t := kube.ParseBootstrapToken(f.Token)
	t.Expires = f.Expires
	return t
}
