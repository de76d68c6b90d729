//go:build linux

package linux

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"nodejoin/steps/host"
)

// trustStores are those of Debian, Ubuntu and Alpine (update-ca-certificates(8)), of
// Fedora and Red Hat (update-ca-trust(8)), of SUSE and of Arch Linux. Without the second argument Debian's
// program leaves the links to a removed certificate.
var trustStores = []trustStore{
	{"/usr/local/share/ca-certificates", "update-ca-certificates", nil, []string{"--fresh"},
		"/etc/ssl/certs/ca-certificates.crt"},
	{"/etc/pki/ca-trust/source/anchors", "update-ca-trust", []string{"extract"}, []string{"extract"},
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
	{"/etc/pki/trust/anchors", "update-ca-certificates", nil, nil, "/var/lib/ca-certificates/ca-bundle.pem"},
	{"/etc/ca-certificates/trust-source/anchors", "update-ca-trust", nil, nil,
		"/etc/ca-certificates/extracted/tls-ca-bundle.pem"},
}

var sbinDirs = []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"}

// findTrust returns the store of this machine, its program with the whole path.
func (h *Host) findTrust() (trustStore, error) {
	for _, s := range h.trust {
		if info, err := os.Stat(s.anchors); errors.Is(absent(err), fs.ErrNotExist) || err == nil && !info.IsDir() {
			continue
		} else if err != nil {
			return s, err
		}
		for _, dir := range sbinDirs {
			path := s.program
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			if _, err := os.Stat(path); err == nil {
				s.program = path
				return s, nil
			}
		}
	}
	return trustStore{}, fmt.Errorf(
		"%w: neither update-ca-certificates nor update-ca-trust is installed with its folder of certificates",
		host.ErrUnsupported)
}

// anchor is the file of an authority that nodejoin has added.
func (s trustStore) anchor(ca []byte) string {
	sum := sha256.Sum256(ca)
	return filepath.Join(s.anchors, "nodejoin-"+hex.EncodeToString(sum[:8])+".crt")
}

// going marks an authority that is being removed: a folder, because programs that read the anchors read
// only files.
func (s trustStore) going(ca []byte) string {
	return strings.TrimSuffix(s.anchor(ca), ".crt") + ".going"
}

// AddedCA reports whether an authority has a file of ours, or the remains of an interrupted change.
func (h *Host) AddedCA(ctx context.Context, ca []byte) (bool, error) {
	const op = "look for added authority"
	s, err := h.trustOf(ctx, ca)
	if err != nil {
		return false, failed(op, s.anchors, err)
	}
	for _, path := range []string{s.anchor(ca), host.TempName(s.anchor(ca)), s.going(ca)} {
		switch _, err := os.Lstat(path); {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, failed(op, path, err)
		}
	}
	return false, nil
}

// TrustedCA reports whether programs trust an authority, and it is not being removed.
func (h *Host) TrustedCA(ctx context.Context, ca []byte) (bool, error) {
	const op = "look for trusted authority"
	s, err := h.trustOf(ctx, ca)
	if err != nil {
		return false, failed(op, s.anchors, err)
	}
	if _, err := os.Lstat(s.going(ca)); err == nil {
		return false, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, failed(op, s.going(ca), err)
	}
	raw, err := os.ReadFile(s.bundle)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // of a machine that trusts nobody
	}
	if err != nil {
		return false, failed(op, s.bundle, err)
	}
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			return false, nil
		}
		if bytes.Equal(block.Bytes, ca) {
			return true, nil
		}
	}
}

func (h *Host) trustOf(ctx context.Context, ca []byte) (trustStore, error) {
	if ctx.Err() != nil {
		return trustStore{}, context.Cause(ctx)
	}
	if err := host.CheckCertificate(ca); err != nil {
		return trustStore{}, err
	}
	return h.findTrust()
}

// TrustCA adds an authority; one that is trusted already is not an error.
func (h *Host) TrustCA(ctx context.Context, ca []byte) error {
	const op = "trust authority"
	s, err := h.trustOf(ctx, ca)
	if err != nil {
		return failed(op, s.anchors, err)
	}
	return failed(op, s.anchor(ca), h.locked(ctx, func() error {
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})
		if err := writeFile(ctx, s.anchor(ca), bytes.NewReader(text), host.WriteOptions{}); err != nil {
			return err
		}
		if err := s.run(ctx, s.update); err != nil {
			return err
		}
		return drop(s.going(ca))
	}))
}

// DistrustCA removes an authority that TrustCA added. It is marked as going until programs no longer read
// it, so that an interrupted call is known.
func (h *Host) DistrustCA(ctx context.Context, ca []byte) error {
	const op = "distrust authority"
	s, err := h.trustOf(ctx, ca)
	if err != nil {
		return failed(op, s.anchors, err)
	}
	return failed(op, s.anchor(ca), h.locked(ctx, func() error {
		if err := os.Mkdir(s.going(ca), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, path := range []string{s.anchor(ca), host.TempName(s.anchor(ca))} {
			if err := drop(path); err != nil {
				return err
			}
		}
		if err := s.run(ctx, s.rebuild); err != nil {
			return err
		}
		return drop(s.going(ca))
	}))
}

// run runs the distribution's program. Only its exit status counts; its output is for people.
func (s trustStore) run(ctx context.Context, args []string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, "/"
	cmd.Env = append(os.Environ(), "PATH="+strings.Join(sbinDirs, ":")+":/usr/local/bin", "LC_ALL=C")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", s.program, err, strings.TrimSpace(out.String()))
	}
	return nil
}
