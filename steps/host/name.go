package host

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode"
)

// HostName is the name of a machine, without its domain.
type HostName struct {
	Now  string `json:"now"`            // as programs see it
	Next string `json:"next,omitempty"` // after the next boot
	// Domain is the Windows domain that the machine is a member of; "" = none.
	Domain string `json:"domain,omitempty"`
}

// CheckHostName rejects, with fs.ErrInvalid, names that no machine can have. It accepts names that RFC 1123
// does not: a machine may have one, and restoring it must work.
func CheckHostName(name string) error {
	const longest = 64 // of Linux (sethostname(2)); Windows allows 63
	odd := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`/\:*?"<>|`, r)
	}
	if name == "" || len(name) > longest || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("%w: no machine can have the name %q", fs.ErrInvalid, name)
	}
	return nil
}

// HostNameFault says why a name is not a single label of RFC 1123 (2.1) that every system accepts, in words
// that follow the name; "" if it is one.
func HostNameFault(name string) string {
	if strings.Contains(name, ".") {
		return "has a dot: it is the machine's own name, without its domain"
	}
	if why := LabelFault(name); why != "" {
		return why
	}
	if !strings.ContainsFunc(name, letter) {
		return "has no letter, which Windows does not accept"
	}
	return ""
}

// LabelFault says why a text is not a label of a name by RFC 1123 (2.1), in words that follow it; "" if it is one.
func LabelFault(label string) string {
	switch {
	case label == "":
		return "is empty"
	case len(label) > 63:
		return fmt.Sprintf("has %d characters, more than 63", len(label))
	case strings.ContainsFunc(label, func(r rune) bool { return !letter(r) && !digit(r) && r != '-' }):
		return "has characters besides letters, digits and '-'"
	case strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-"):
		return "begins or ends with '-'"
	}
	return ""
}

func letter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

func digit(r rune) bool { return '0' <= r && r <= '9' }

// NetBIOSName is the name of a Windows machine that older programs see: the first 15 characters, in capitals
// (learn.microsoft.com, SetComputerNameExW).
func NetBIOSName(name string) string { return strings.ToUpper(name[:min(len(name), 15)]) }
