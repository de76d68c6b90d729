package artifact

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// names checks the member names of one archive as paths of the target OS.
type names struct {
	windows bool
	files   map[string]bool // keys of files
	dirs    map[string]bool // keys of folders that files lie in
}

func newNames(targetOS string) *names {
	return &names{windows: targetOS == "windows", files: map[string]bool{}, dirs: map[string]bool{}}
}

// add returns the clean form of a member's name, or what is wrong with it. The clean form of the archive's
// root folder is ".".
func (n *names) add(name string, dir bool) (clean, problem string) {
	clean, problem = cleanName(name, n.windows)
	if problem != "" || clean == "." && dir {
		return clean, problem
	}
	if clean == "." {
		return "", "has no name"
	}
	key := n.key(clean)
	if dir {
		if n.files[key] {
			return "", "is both a folder and a file"
		}
		n.dirs[key] = true
		return clean, ""
	}
	if n.files[key] || n.dirs[key] {
		return "", "occurs twice (the target system treats the names as equal)"
	}
	n.files[key] = true
	for p := path.Dir(key); p != "."; p = path.Dir(p) {
		if n.files[p] {
			return "", "lies in a folder that is a file"
		}
		n.dirs[p] = true
	}
	return clean, ""
}

// key is equal for names that are the same to the target OS.
func (n *names) key(s string) string {
	if !n.windows {
		return s
	}
	return strings.ToUpper(strings.ToLower(s))
}

// Lengths of NTFS and of Linux's file systems (NAME_MAX), and a bound on the whole
// that leaves room for the folder it is unpacked to.
const (
	maxElement = 255
	maxName    = 1024
)

// cleanName validates name as a relative path and removes a leading "./".
func cleanName(name string, windows bool) (clean, problem string) {
	switch {
	case name == "":
		return "", "has no name"
	case !utf8.ValidString(name):
		return "", "has a name that is not UTF-8"
	case len(name) > maxName:
		return "", fmt.Sprintf("has a name longer than %d bytes", maxName)
	case strings.HasPrefix(name, "/"):
		return "", "has an absolute name"
	case strings.ContainsRune(name, '\\'):
		return "", "has a backslash in its name"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", "has a control character in its name"
	}
	var kept []string
	for _, e := range strings.Split(name, "/") {
		switch {
		case e == "" || e == ".":
			continue // "./x", "a//b", and the slash that ends a folder's name
		case e == "..":
			return "", `has ".." in its name`
		case len(e) > maxElement:
			return "", fmt.Sprintf("has a name longer than %d bytes", maxElement)
		}
		if windows {
			if problem := windowsElement(e); problem != "" {
				return "", problem
			}
		}
		kept = append(kept, e)
	}
	if len(kept) == 0 {
		return ".", ""
	}
	return strings.Join(kept, "/"), ""
}

// deviceDigits are the characters that make COM and LPT names of devices.
const deviceDigits = "0123456789¹²³"

// windowsElement returns how Windows would misinterpret an element. Source: "Naming Files, Paths, and
// Namespaces", Microsoft Learn.
func windowsElement(e string) (problem string) {
	if i := strings.IndexAny(e, `<>:"|?*`); i >= 0 {
		return fmt.Sprintf("has %q in its name, which Windows does not accept", e[i])
	}
	if strings.HasSuffix(e, ".") || strings.HasSuffix(e, " ") {
		return "has a name that ends in a dot or a space, which Windows drops"
	}
	stem, _, _ := strings.Cut(e, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	if shortName(e) {
		return "has the form of a short name (NAME~1), by which Windows may find another file"
	}
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return "has the name of a Windows device"
	}
	if port, ok := strings.CutPrefix(stem, "COM"); ok || strings.HasPrefix(stem, "LPT") {
		if !ok {
			port = stem[len("LPT"):]
		}
		if utf8.RuneCountInString(port) == 1 && strings.Contains(deviceDigits, port) {
			return "has the name of a Windows device"
		}
	}
	return ""
}

// shortName reports whether Windows may have made an element up as the 8.3 name of a longer one: at most six
// characters, a tilde and digits, eight in all, and an ending of at most three ("Naming Files, Paths, and
// Namespaces", Microsoft Learn).
func shortName(e string) bool {
	stem, end, _ := strings.Cut(e, ".")
	i := strings.LastIndexByte(stem, '~')
	if i < 1 || len(stem) > 8 || len(end) > 3 || i == len(stem)-1 {
		return false
	}
	return strings.Trim(stem[i+1:], "0123456789") == ""
}
