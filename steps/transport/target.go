package transport

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"nodejoin/steps/transport/wire"
)

// Target is what a machine is, whichever way leads to it.
type Target struct {
	OS      string // of the machine: "windows" or "linux"
	Arch    string // "amd64" or "arm64"; "" = amd64
	DataDir string // nodejoin's folder there; "" = DefaultDataDir(OS)
	// Interface is the adapter whose address is the machine's; "" = that of the default route.
	Interface string
	// KeepAlive is the time between two signs of life; a machine that misses two counts as gone. 0 = 10 s.
	KeepAlive time.Duration
	// Bounds replaces the bounds of calls to the machine; nil = as they are.
	Bounds func(method string, b wire.Bound) wire.Bound
	// Notify hears that the agent is sent, that it is there and runs, and that it ends with the shell that it was
	// started in: "pushing_agent", "agent_sent", "agent_in_shell". May be nil.
	Notify func(state, detail string)
}

// filled returns c with defaults for what is not set. It refuses what cannot be a folder of the machine.
func (c Target) filled(host string) (Target, error) {
	if c.Arch == "" {
		c.Arch = "amd64"
	}
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir(c.OS)
	}
	if c.KeepAlive <= 0 {
		c.KeepAlive = defaultKeepAlive
	}
	if c.Notify == nil {
		c.Notify = func(string, string) {}
	}
	return c, checkDataDir(c, host)
}

// defaultKeepAlive is the time between two signs of life.
const defaultKeepAlive = 10 * time.Second

// DefaultDataDir is nodejoin's folder on a machine.
func DefaultDataDir(os string) string {
	if os == "windows" {
		return `C:\ProgramData\nodejoin`
	}
	return "/var/lib/nodejoin"
}

// boundOf is the bound of a call to the machine; c may shorten it.
func (c Target) boundOf(method string, b wire.Bound) wire.Bound {
	if c.Bounds != nil {
		return c.Bounds(method, b)
	}
	return b
}

// checkDataDir refuses what cannot be a folder of the machine.
func checkDataDir(c Target, host string) error {
	if c.OS != "windows" && c.OS != "linux" {
		return &ConnectError{Reason: ReasonAgent, Host: host, Summary: "unknown operating system",
			Detail: fmt.Sprintf("%q is neither windows nor linux", c.OS)}
	}
	if strings.ContainsAny(c.DataDir, "\x00\n\r") || !absolute(c.OS, c.DataDir) {
		return &ConnectError{Reason: ReasonAgent, Host: host, Summary: "unusable data folder",
			Detail: fmt.Sprintf("%q is not an absolute path on %s", c.DataDir, c.OS), Remedy: "use " + DefaultDataDir(c.OS)}
	}
	return nil
}

func absolute(os, p string) bool {
	if os == "windows" {
		return len(p) > 3 && p[1] == ':' && (p[2] == '\\' || p[2] == '/')
	}
	return strings.HasPrefix(p, "/")
}

// publicAddress is the address in "address:port"; "" where that is not how others reach the machine.
func publicAddress(text string) string {
	at, err := netip.ParseAddrPort(text)
	ip := at.Addr().Unmap()
	if err != nil || ip.Zone() != "" || !ip.IsGlobalUnicast() { // loopback: something passes the connection on
		return ""
	}
	return ip.String()
}
