package block

import (
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
	"nodejoin/plan/origin"
)

// decodeMirror reads the mirror block; nil when there is none.
func decodeMirror(sc *eval.Scope, blocks []*hcl.Block) *mirror {
	var out *mirror
	for _, b := range blocks {
		out = &mirror{Range: b.DefRange}
		s := sc.Section(Root("mirror"), b, sc.Ctx)
		mirrorAddress(s, "url")
		switch {
		case s.Has("path") && s.Has("url"):
			s.Fail("url", "arguments exclude each other",
				"A mirror is a folder of the controller (path), or a web server or registry (url). Remove one of the two.")
		case !s.Has("path") && !s.Has("url") && !s.Misspelt("path") && !s.Misspelt("url"):
			s.FailAt(b.DefRange, "missing argument", "There is neither \"path\" nor \"url\", so the mirror is nowhere.")
		}
		if s.Str("path") != "" {
			out.Path = sc.Files.Home(s.Str("path"))
		}
		if s.OK {
			out.URL = s.Str("url")
		}
	}
	return out
}

var ociRepository = regexp.MustCompile(`^oci://[^/@?#:]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$`)

// mirrorAddress checks an argument that is the address of a mirror, if it is there: a folder of a web server, or a
// repository of a registry.
func mirrorAddress(s *eval.Section, name string) {
	switch text := s.Str(name); {
	case strings.HasPrefix(text, "oci:") && !ociRepository.MatchString(text):
		s.Fail(name, "invalid URL", "%q is not a repository of a registry: oci://registry.example/nodejoin, in lower "+
			"case and without a tag.", text)
	case strings.HasPrefix(text, "oci:"):
	case strings.ContainsAny(text, "?#"):
		s.Fail(name, "invalid URL", "The names of the files are added to the address of a mirror, so it ends with a path.")
	default:
		origin.WebAddress(s, name)
	}
}

var notTag = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// MirrorTag is the tag of a file in a registry.
func MirrorTag(file string) string { return notTag.ReplaceAllString(file, "_") }

// InMirror is where the mirror at an address has a file: below it, or in a registry under the file's name as a tag.
func InMirror(address, file string) string {
	if strings.HasPrefix(address, "oci:") {
		return address + ":" + MirrorTag(file)
	}
	return strings.TrimRight(address, "/") + "/" + file
}

// mirror is the mirror block.
type mirror struct {
	Path  string // of a folder, absolute
	URL   string // of a web server's folder or a repository, if Path is ""; both "" = what is wrong was reported
	Range hcl.Range
}
