package host

import (
	"path"
	"strings"
)

// TempName is where a write to p is prepared: beside it, so that the rename is atomic, and always the same,
// so that the next write reuses what an interrupted one left.
func TempName(p string) string { return p + ".nodejoin-new" }

// OldName is what the file of a program is renamed to that runs and is replaced.
func OldName(p string) string { return p + ".old" }

// Join joins elements with the separator of the given OS.
func Join(os string, elem ...string) string {
	if os != "windows" {
		return path.Join(elem...)
	}
	var parts []string
	for i, e := range elem {
		e = strings.ReplaceAll(e, "/", `\`)
		if i > 0 {
			e = strings.TrimLeft(e, `\`)
		}
		if e = strings.TrimRight(e, `\`); e != "" {
			parts = append(parts, e)
		}
	}
	return strings.Join(parts, `\`)
}

// Dir is the parent folder of p on the given OS.
func Dir(os, p string) string {
	if os != "windows" {
		return path.Dir(path.Clean(p)) // that of "/a/b/" is "/a", as on Windows
	}
	p = strings.TrimRight(strings.ReplaceAll(p, "/", `\`), `\`)
	i := strings.LastIndex(p, `\`)
	if i < 0 {
		if len(p) == 2 && p[1] == ':' {
			return p + `\` // a root is its own folder
		}
		return p
	}
	if i == 2 && len(p) > 1 && p[1] == ':' {
		return p[:3]
	}
	return p[:i]
}

// Base is the last element of p on the given OS.
func Base(os, p string) string {
	if os != "windows" {
		return path.Base(p)
	}
	p = strings.TrimRight(strings.ReplaceAll(p, "/", `\`), `\`)
	return p[strings.LastIndex(p, `\`)+1:]
}

// SamePath reports whether two paths name the same file on the given OS (on Windows regardless of case and
// kind of slash).
func SamePath(os, a, b string) bool { return PathKey(os, a) == PathKey(os, b) }

// PathKey is a form of p that is equal for equal paths.
func PathKey(os, p string) string {
	if os != "windows" {
		return path.Clean(p)
	}
	return strings.ToLower(strings.TrimRight(strings.ReplaceAll(p, "/", `\`), `\`))
}
