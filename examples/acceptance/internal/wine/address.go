package wine

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Port of the SSH server.
func (h *Host) Port() int {
	_, port, _ := strings.Cut(h.Addr, ":")
	n, _ := strconv.Atoi(port)
	return n
}

// KnownHosts returns the line of a known_hosts file for the SSH server at port.
func (h *Host) KnownHosts(port int) string {
	return fmt.Sprintf("[%s]:%d %s", h.ip(), port, ssh.MarshalAuthorizedKey(h.HostKey))
}

// ip is where the SSH server listens.
func (h *Host) ip() string { return cmp.Or(h.opts.IP, "127.0.0.1") }

// listens matches the address in the registration of the SSH server, in the file of the registry.
var listens = regexp.MustCompile(`(winsshd\.exe -listen )[0-9.]+(:)`)

// ListenAt has the SSH server of a machine that is down listen at another address from its next boot on.
func (h *Host) ListenAt(ip string) error {
	path := filepath.Join(h.Prefix, "system.reg")
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !listens.Match(b) {
		return errors.New("the service sshd of the machine has no address")
	}
	h.opts.IP = ip
	return os.WriteFile(path, listens.ReplaceAll(b, []byte("${1}"+ip+"${2}")), 0o644)
}

// machineGUID matches the value in the file of the registry.
var machineGUID = regexp.MustCompile(`(?m)^"MachineGuid"="([0-9a-f-]{36})"\n`)

// Generalize takes the MachineGuid from a machine that is down, as Sysprep does, and returns it. Wine makes another
// one when a program first uses keys (advapi32/crypt.c).
func (h *Host) Generalize() (guid string, err error) {
	path := filepath.Join(h.Prefix, "system.reg")
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	found := machineGUID.FindSubmatch(b)
	if found == nil {
		return "", errors.New("the machine has no MachineGuid")
	}
	return string(found[1]), os.WriteFile(path, machineGUID.ReplaceAll(b, nil), 0o644)
}
