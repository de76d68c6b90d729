package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// badPath returns the error for a path that the machine refuses. It matches fs.ErrInvalid.
func badPath(format string, args ...any) error {
	return fmt.Errorf("%w: %s", fs.ErrInvalid, fmt.Sprintf(format, args...))
}

// elements splits a path of the machine, with the drive letter first ("C"). It refuses what the operating
// system refuses.
func (h *Host) elements(p string) ([]string, error) {
	if !h.windows() {
		if !strings.HasPrefix(p, "/") {
			return nil, badPath("the path is not absolute")
		}
		var out []string
		for _, e := range strings.Split(p, "/") {
			switch {
			case e == "":
			case e == ".." || e == ".":
				return nil, badPath("%q in a path", e)
			case strings.ContainsRune(e, 0):
				return nil, badPath("a NUL in a path")
			default:
				out = append(out, e)
			}
		}
		if len(out) > 0 && out[0] == stateDir {
			return nil, badPath("%s is not part of the machine", stateDir)
		}
		return out, nil
	}
	if len(p) < 3 || p[1] != ':' || (p[2] != '\\' && p[2] != '/') || !isLetter(p[0]) {
		return nil, badPath("the path does not begin with a drive letter")
	}
	out := []string{strings.ToUpper(p[:1])}
	for _, e := range strings.FieldsFunc(p[3:], func(r rune) bool { return r == '\\' || r == '/' }) {
		if err := checkWindowsName(e); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// reserved are the device names of Windows, with any extension
// (learn.microsoft.com, "Naming Files, Paths, and Namespaces").
var reserved = []string{"CON", "PRN", "AUX", "NUL",
	"COM1", "COM2", "COM3", "COM4", "COM5", "COM6", "COM7", "COM8", "COM9", "COM¹", "COM²", "COM³",
	"LPT1", "LPT2", "LPT3", "LPT4", "LPT5", "LPT6", "LPT7", "LPT8", "LPT9", "LPT¹", "LPT²", "LPT³"}

func checkWindowsName(e string) error {
	stem, _, _ := strings.Cut(e, ".")
	switch {
	case e == ".." || e == ".":
		return badPath("%q in a path", e)
	case strings.HasSuffix(e, ".") || strings.HasSuffix(e, " "):
		return badPath("the name %q ends in a dot or a space", e)
	case strings.ContainsAny(e, `<>:"|?*`) || strings.ContainsFunc(e, func(r rune) bool { return r < 32 }):
		return badPath("the name %q holds a character that Windows refuses", e)
	case slices.Contains(reserved, strings.ToUpper(strings.TrimRight(stem, " "))):
		return badPath("the name %q is reserved for a device", e)
	case len(e) > 255:
		return badPath("a name is longer than 255 characters")
	}
	return nil
}

// key returns a key that is equal for paths of the same file.
func (h *Host) key(p string) (string, error) {
	e, err := h.elements(p)
	if err != nil {
		return "", err
	}
	k := strings.Join(e, "/")
	if h.windows() {
		k = strings.ToLower(k)
	}
	return k, nil
}

// fold returns the form in which case-insensitive names are stored.
func (h *Host) fold(name string) string {
	if h.windows() {
		return strings.ToLower(name)
	}
	return name
}

// real returns where the machine's path p is below the folder. On Windows an existing file is found regardless
// of case.
func (h *Host) real(p string) (string, error) {
	elems, err := h.elements(p)
	if err != nil {
		return "", err
	}
	at := filepath.Join(append([]string{h.cfg.Path}, elems...)...)
	if !h.windows() {
		return at, nil
	}
	// Start with the longest part that exists as written.
	known := len(elems)
	for known > 1 {
		if _, err := os.Lstat(at); err == nil {
			break
		}
		known--
		at = filepath.Dir(at)
	}
	for i, e := range elems[known:] {
		name, ok := findFold(at, e)
		if !ok {
			return filepath.Join(append([]string{at}, elems[known+i:]...)...), nil
		}
		at = filepath.Join(at, name)
	}
	return at, nil
}

// place returns the key of a path and where it really is.
func (h *Host) place(p string) (key, at string, err error) {
	if key, err = h.key(p); err == nil {
		at, err = h.real(p)
	}
	return key, at, err
}

func findFold(dir, name string) (string, bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			return e.Name(), true
		}
	}
	return "", false
}

// absolute reports whether a command element is an absolute path of the machine.
func (h *Host) absolute(p string) bool {
	_, err := h.elements(p)
	return err == nil
}

func (h *Host) base(p string) string { return h.fold(host.Base(h.cfg.OS, p)) }

func (h *Host) isFile(p string) bool {
	at, err := h.real(p)
	if err != nil {
		return false
	}
	fi, err := os.Stat(at)
	return err == nil && fi.Mode().IsRegular()
}
