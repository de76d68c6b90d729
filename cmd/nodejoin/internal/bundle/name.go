package bundle

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// Bounds of the name of an entry: programs that unpack a bundle have theirs.
const (
	maxElements = 16
	maxElement  = 100 // bytes of one
)

// name makes the name of an entry in the folder dir, which ends in a slash, of what a host
// calls it. Each name is used once, also on systems that ignore case.
func (b *Bundle) name(dir, said string) string {
	var parts []string
	for _, p := range strings.FieldsFunc(said, func(r rune) bool { return r == '\\' || r == '/' || r == ':' }) {
		if p != "." && len(parts) < maxElements {
			parts = append(parts, element(p))
		}
	}
	if len(parts) == 0 {
		parts = []string{"_"}
	}
	name := dir + strings.Join(parts, "/")
	if b.names == nil {
		b.names = map[string]int{}
	}
	first, end := name, path.Ext(name)
	key := strings.ToLower(first)
	for n := max(b.names[key], 1) + 1; b.names[strings.ToLower(name)] > 0; n++ {
		name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(first, end), n, end)
		b.names[key] = n
	}
	b.names[strings.ToLower(name)] = max(b.names[strings.ToLower(name)], 1)
	return name
}

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
