package plan

import (
	"regexp"
	"slices"
	"strings"
)

// reserved device names of Windows, with or without an extension
// (learn.microsoft.com/windows/win32/fileio/naming-a-file).
var reserved = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?$`)

// maxElement bounds one name in a path: NTFS (255 UTF-16 units) and the file
// systems of Linux (255 bytes).
const maxElement = 255

// badPath says why p is no absolute path on an OS, "" when it is one.
func badPath(os, p string) string {
	if strings.ContainsAny(p, "\x00\r\n") {
		return "it holds a control character"
	}
	if slices.ContainsFunc(strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }), func(e string) bool { return len(e) > maxElement }) {
		return "it has a name of more than 255 bytes, which file systems do not take"
	}
	if os != "windows" {
		switch {
		case !strings.HasPrefix(p, "/"):
			return "it must be absolute and begin with '/'"
		case hasDotDot(strings.Split(p, "/")):
			return "it must not hold '..'"
		case len(p) > 4095:
			return "it is longer than 4095 bytes"
		}
		return ""
	}
	if strings.HasPrefix(p, `\\`) {
		return `network and device paths are not possible here; write it with a drive, as C:\k`
	}
	q := strings.ReplaceAll(p, "/", `\`)
	if len(q) < 3 || q[1] != ':' || q[2] != '\\' || !isLetter(q[0]) {
		return `it must be absolute and begin with a drive, as in C:\k (a path without one means another place to a service than to a session)`
	}
	if len(q) > 259 {
		return "it is longer than 259 characters, which Windows takes only where long paths are enabled"
	}
	parts := strings.Split(strings.TrimRight(q[3:], `\`), `\`)
	if hasDotDot(parts) {
		return "it must not hold '..'"
	}
	for _, e := range parts {
		switch {
		case e == "" && len(parts) > 1:
			return "it has an empty element"
		case strings.ContainsAny(e, `<>:"|?*`):
			return "'" + e + `' holds one of < > : " | ? *`
		case strings.HasSuffix(e, ".") || strings.HasSuffix(e, " "):
			return "'" + e + "' ends with a dot or a space, which Windows drops"
		case reserved.MatchString(e):
			return "'" + e + "' is the name of a device"
		}
		for _, r := range e {
			if r < 0x20 {
				return "it holds a control character"
			}
		}
	}
	return ""
}

func hasDotDot(parts []string) bool {
	for _, e := range parts {
		if e == ".." {
			return true
		}
	}
	return false
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }
