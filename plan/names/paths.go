// Package names judges what machines and Kubernetes take as a name: paths, adapters, labels, DNS names.
package names

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"nodejoin/steps/host"
)

// reserved device names of Windows, with or without an extension; spaces before the extension
// are ignored (learn.microsoft.com/windows/win32/fileio/naming-a-file).
var reserved = regexp.MustCompile(`(?i)^(con|conin\$|conout\$|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]) *(\..*)?$`)

// maxElement bounds one name in a path: NTFS (255 UTF-16 units) and the file
// systems of Linux (255 bytes). A file is first written under a longer name.
var maxElement = 255 - len(host.TempName(""))

// BadPath says why p is not an absolute path on an OS; "" if it is one.
func BadPath(os, p string) string {
	if strings.ContainsAny(p, "\x00\r\n") {
		return "it holds a control character"
	}
	if !utf8.ValidString(p) {
		return "it is not UTF-8 text"
	}
	slash := func(r rune) bool { return r == '/' || r == '\\' && os == "windows" }
	if slices.ContainsFunc(strings.FieldsFunc(p, slash), func(e string) bool { return units(os, e) > maxElement }) {
		return fmt.Sprintf("it has a name of more than %d characters, and file systems take 255 with those that a file "+
			"has while it is written", maxElement)
	}
	if os != "windows" {
		switch {
		case !strings.HasPrefix(p, "/"):
			return "it must be absolute and begin with '/'"
		case hasDotDot(strings.Split(p, "/")):
			return "it must not hold '..'"
		case slices.Contains(strings.Split(p, "/"), "."):
			return "it has an element '.', which names nothing"
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
		return "it must be absolute and begin with a drive, as in C:\\k (without one, a service and a session resolve " +
			"the path differently)"
	}
	if units(os, q) > 259 {
		return "it is longer than 259 characters, which Windows takes only where long paths are enabled"
	}
	parts := strings.Split(strings.TrimSuffix(q[3:], `\`), `\`)
	if hasDotDot(parts) {
		return "it must not hold '..'"
	}
	for _, e := range parts {
		switch {
		case e == "" && q != q[:3]:
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

// BadAdapter says why no network adapter can have a name; "" if one can. Windows takes 256 characters
// (IF_MAX_STRING_SIZE of ipifcons.h), Linux less.
func BadAdapter(name string) string {
	switch {
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "it holds a control character or is not UTF-8 text"
	case utf8.RuneCountInString(name) > 256:
		return "it is longer than 256 characters"
	case strings.TrimSpace(name) != name:
		return "it begins or ends with a space"
	}
	return ""
}

// units returns the length of a name as file systems count it: in UTF-16 units on Windows, in
// bytes elsewhere.
func units(os, s string) int {
	if os == "windows" {
		return len(utf16.Encode([]rune(s)))
	}
	return len(s)
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
