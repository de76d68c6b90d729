package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nodejoin/steps/host"
)

// OpenSSH's server, a capability of Windows: it is there at once, with its service, which makes its folder and its
// host keys when it first starts.
const (
	sshCapability = "OpenSSH.Server~~~~0.0.1.0"
	sshd          = "sshd"
	sshProgram    = `C:\Windows\System32\OpenSSH\sshd.exe`
	sshHostKey    = `C:\ProgramData\ssh\ssh_host_ed25519_key`
	// sshPublicKey is the host key of every sandbox.
	sshPublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEy sandbox\n"
)

// setSSH installs the server, or removes it. As in Windows what the server made stays.
func (h *Host) setSSH(s *state, want host.FeatureState) error {
	if s.Features == nil {
		s.Features = map[string]host.FeatureState{}
	}
	if want == host.FeatureOn {
		s.Features[h.fold(sshCapability)] = host.FeatureOn
		if s.Services[sshd] == nil {
			s.Services[sshd] = &service{Service: host.Service{State: host.ServiceStopped, ServiceConfig: host.ServiceConfig{
				Name: sshd, DisplayName: "OpenSSH SSH Server", Command: []string{sshProgram}, Start: host.StartManual}}}
		}
		return h.put(sshProgram, "sshd")
	}
	delete(s.Features, h.fold(sshCapability))
	delete(s.Services, sshd)
	at, err := h.real(sshProgram)
	if err == nil {
		err = os.Remove(at)
	}
	for range 3 { // the folders that put made
		at = filepath.Dir(at)
		_ = os.Remove(at) // it fails for one that is not empty
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// launchSSH makes the host keys, once.
func (h *Host) launchSSH() error {
	if h.isFile(sshHostKey) {
		return nil
	}
	return errors.Join(h.put(sshHostKey, "a private key"), h.put(sshHostKey+".pub", sshPublicKey))
}

func (h *Host) put(path, text string) error {
	at, err := h.real(path)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644))
}
