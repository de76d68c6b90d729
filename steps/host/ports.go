package host

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// PortRange is a range of ports of "tcp" or "udp", its ends included.
type PortRange struct {
	Protocol string `json:"protocol"`
	First    uint16 `json:"first"`
	Last     uint16 `json:"last"`
}

func (r PortRange) String() string {
	if r.First == r.Last {
		return fmt.Sprintf("%d/%s", r.First, r.Protocol)
	}
	return fmt.Sprintf("%d-%d/%s", r.First, r.Last, r.Protocol)
}

// Count is the number of ports.
func (r PortRange) Count() int { return int(r.Last) - int(r.First) + 1 }

// What Windows accepts for its ephemeral ports
// (learn.microsoft.com/troubleshoot/windows-server/networking/default-dynamic-port-range-tcpip-chang).
const (
	MinDynamicPort  = 1025 // the lowest
	MinDynamicPorts = 255  // their lowest number
)

// Valid returns what is wrong with a range: fs.ErrInvalid.
func (r PortRange) Valid() error {
	switch {
	case r.Protocol != "tcp" && r.Protocol != "udp":
		return fmt.Errorf("%w: protocol %q", fs.ErrInvalid, r.Protocol)
	case r.First == 0 || r.First > r.Last:
		return fmt.Errorf("%w: ports %d-%d", fs.ErrInvalid, r.First, r.Last)
	}
	return nil
}

// ValidDynamic is Valid for ephemeral ports of Windows.
func (r PortRange) ValidDynamic() error {
	if err := r.Valid(); err != nil {
		return err
	}
	if r.First < MinDynamicPort || r.Count() < MinDynamicPorts {
		return fmt.Errorf("%w: ports %s; the first must be at least %d and their number at least %d", fs.ErrInvalid, r,
			MinDynamicPort, MinDynamicPorts)
	}
	return nil
}

// ParsePortRange parses the form of String, "10250/tcp" or "30000-32767/tcp". Errors are fs.ErrInvalid.
func ParsePortRange(text string) (PortRange, error) {
	ports, protocol, _ := strings.Cut(text, "/")
	first, last, isRange := strings.Cut(ports, "-")
	if !isRange {
		last = first
	}
	f, err1 := strconv.ParseUint(first, 10, 16)
	l, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil {
		return PortRange{}, fmt.Errorf("%w: %q is not a port range", fs.ErrInvalid, text)
	}
	r := PortRange{Protocol: protocol, First: uint16(f), Last: uint16(l)}
	return r, r.Valid()
}
