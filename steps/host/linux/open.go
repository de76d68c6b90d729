//go:build linux

package linux

import (
	"path/filepath"

	"nodejoin/steps/host"
)

// Options say how a Host works.
type Options struct {
	// DataDir is nodejoin's own folder; default /var/lib/nodejoin.
	DataDir string
	// EnvFile holds the machine's environment, one NAME=value a line; default
	// /etc/environment.
	EnvFile string
	// Supervisor has services run by nodejoin's own manager, also under systemd.
	Supervisor bool
}

var _ host.Host = (*Host)(nil)

// New returns the machine this program runs on. Nothing is written before the first
// call that changes the machine.
func New(opt Options) (*Host, error) {
	if opt.DataDir == "" {
		opt.DataDir = "/var/lib/nodejoin"
	}
	if opt.EnvFile == "" {
		opt.EnvFile = "/etc/environment"
	}
	for _, p := range []string{opt.DataDir, opt.EnvFile} {
		if err := checkPath(p); err != nil {
			return nil, &host.Error{Op: "open machine", Subject: p, Err: err}
		}
	}
	h := &Host{dataDir: filepath.Clean(opt.DataDir), envFile: opt.EnvFile, nameFile: "/etc/hostname", trust: trustStores,
		children: map[processID]*child{}}
	manager, err := initSystem()
	if err != nil {
		return nil, &host.Error{Op: "open machine", Subject: "service manager", Err: err}
	}
	h.services = supervisor{h}
	if manager == "systemd" && !opt.Supervisor {
		h.services = systemd{h}
	}
	return h, nil
}
