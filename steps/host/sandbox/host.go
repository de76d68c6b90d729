package sandbox

import (
	"context"
	"net/netip"
	"path/filepath"
	"strings"

	"nodejoin/steps/host"
)

// Config describes the machine. Only Path is required.
type Config struct {
	Path     string // folder of the machine, created if it is missing
	OS       string // "windows" (default) or "linux"
	Arch     string // default "amd64"
	Build    string // default "10.0.20348", for linux "6.12.0"
	IP       string // address of the machine, default 192.0.2.10
	IP6      string // its address of IPv6; "" = none
	Hostname string // default: the name of the folder
	DataDir  string // nodejoin's own folder; default C:\ProgramData\nodejoin or /var/lib/nodejoin

	// ClusterDir is the folder of the sandbox cluster that the machine's kubelet joins; "" = none, and the
	// kubelet gets a certificate that no cluster knows.
	ClusterDir string
	// Capacity of the volume in bytes; 0 = that of the volume under Path.
	Capacity int64
	// Broken makes programs exit as soon as they start: "kubelet.exe" -> "exit 1". The file
	// .sandbox/broken.json below Path does the same and is read at each start.
	Broken map[string]string
}

// Host is the machine. It is safe for concurrent use.
type Host struct {
	cfg    Config
	prefix netip.Prefix
	state  *document
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (h *Host) windows() bool { return h.cfg.OS == "windows" }

// product returns the name of the Windows release of a build number (learn.microsoft.com, "Windows Server
// release information").
func (h *Host) product() string {
	if !h.windows() {
		return "Sandbox Linux"
	}
	for build, name := range map[string]string{"10.0.17763": "Windows Server 2019 Datacenter",
		"10.0.20348": "Windows Server 2022 Datacenter", "10.0.26100": "Windows Server 2025 Datacenter"} {
		if h.cfg.Build == build || strings.HasPrefix(h.cfg.Build, build+".") {
			return name
		}
	}
	return "Windows Server"
}

// failed wraps the error of a call.
func failed(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	return &host.Error{Op: op, Subject: subject, Err: err}
}

func (h *Host) openState() *document {
	file := func(name string) string { return filepath.Join(h.cfg.Path, stateDir, name) }
	return openDocument(file("state.json"), file("state.journal"), file("lock"), func() contents { return &state{} })
}

// view calls f with the state and wraps its error. f must copy what it keeps.
func (h *Host) view(ctx context.Context, op, subject string, f func(*state) error) error {
	return failed(op, subject, h.state.view(ctx, func(c contents) error { return f(c.(*state)) }))
}

// change calls f under the machine's lock and saves the state. If f fails, its changes are discarded.
func (h *Host) change(ctx context.Context, f func(*state) error) error {
	return h.state.change(ctx, func(c contents) error { return f(c.(*state)) })
}
