package bundle

import (
	"strings"
	"unicode"
)

// Bounds of the name of an entry: programs that unpack a bundle have theirs.
const (
	maxElements = 16
	maxElement  = 100 // bytes of one
)

// element is one part of a name that every system accepts as a plain file or folder.
func element(p string) string {
	p = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" ._-+()[]{}@,=~#%", r) {
			return r
		}
		return '_'
	}, p)
	p = strings.ToValidUTF8(p[:min(len(p), maxElement)], "")
	if p = strings.TrimRight(strings.TrimLeft(p, " "), " ."); p == "" {
		return "_"
	}
	stem, _, _ := strings.Cut(strings.ToLower(p), ".")
	switch {
	case strings.HasPrefix(p, "-"), isDevice(stem):
		return "_" + p
	}
	return p
}

// isDevice reports whether Windows takes a name for a device.
func isDevice(stem string) bool {
	switch stem = strings.TrimRight(stem, " "); stem {
	case "con", "prn", "aux", "nul", "conin$", "conout$", "clock$":
		return true
	}
	port, ok := strings.CutPrefix(stem, "com")
	if !ok {
		port, ok = strings.CutPrefix(stem, "lpt")
	}
	return ok && len([]rune(port)) == 1 && strings.ContainsAny(port, "0123456789¹²³")
}
