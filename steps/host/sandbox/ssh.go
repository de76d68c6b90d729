package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nodejoin/steps/host"
)

// OpenSSH's server, a capability of Windows: it is there at once, with its service, which makes its folder, its
// configuration (a copy of the default) and its host keys when it first starts.
const (
	sshCapability = "OpenSSH.Server~~~~0.0.1.0"
	sshd          = "sshd"
	sshProgram    = `C:\Windows\System32\OpenSSH\sshd.exe`
	sshHostKey    = `C:\ProgramData\ssh\ssh_host_ed25519_key`
	sshConfig     = `C:\ProgramData\ssh\sshd_config`
	sshDefault    = `C:\Windows\System32\OpenSSH\sshd_config_default`
	sshDefaults   = "PasswordAuthentication yes\n"
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
		return errors.Join(h.put(sshProgram, "sshd"), h.put(sshDefault, sshDefaults))
	}
	delete(s.Features, h.fold(sshCapability))
	delete(s.Services, sshd)
	var at string
	for _, path := range []string{sshDefault, sshProgram} {
		var err error
		if at, err = h.real(path); err != nil {
			return err
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for range 3 { // the folders that put made
		at = filepath.Dir(at)
		_ = os.Remove(at) // it fails for one that is not empty
	}
	return nil
}

// launchSSH makes the configuration and the host keys, once.
func (h *Host) launchSSH() error {
	if !h.isFile(sshConfig) {
		if err := h.put(sshConfig, sshDefaults); err != nil {
			return err
		}
	}
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
