package host

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode"
)

// HostName is the name of a machine, without the domain that it is looked up in.
type HostName struct {
	Now  string `json:"now"`            // as programs are told it
	Next string `json:"next,omitempty"` // after the next boot
	// Domain is the Windows domain that the machine is a member of; "" = none.
	Domain string `json:"domain,omitempty"`
}

// CheckHostName refuses, with fs.ErrInvalid, what no machine takes for its name. It lets
// pass names that RFC 1123 does not: a machine may have one, and be given it back.
func CheckHostName(name string) error {
	const longest = 64 // of Linux (sethostname(2)); Windows takes 63
	odd := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`/\:*?"<>|`, r)
	}
	if name == "" || len(name) > longest || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("%w: no machine can have the name %q", fs.ErrInvalid, name)
	}
	return nil
}

// HostNameFault says why a name is no single label of RFC 1123 (2.1) that every system
// takes, as words that follow it; "" when it is one.
func HostNameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > 63:
		return fmt.Sprintf("has %d characters, more than 63", len(name))
	case strings.Contains(name, "."):
		return "has a dot: it is the machine's own name, without its domain"
	case strings.ContainsFunc(name, func(r rune) bool { return !letter(r) && !digit(r) && r != '-' }):
		return "has characters besides letters, digits and '-'"
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-"):
		return "begins or ends with '-'"
	case !strings.ContainsFunc(name, letter):
		return "has no letter, and Windows takes no such name"
	}
	return ""
}

func letter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

func digit(r rune) bool { return '0' <= r && r <= '9' }

// NetBIOSName is what programs of older kind see of a Windows machine's name: its first
// 15 characters, in capitals (learn.microsoft.com, SetComputerNameExW).
func NetBIOSName(name string) string { return strings.ToUpper(name[:min(len(name), 15)]) }
