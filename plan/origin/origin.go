// Package origin reads where a file of a plan comes from: its address, and its digest.
package origin

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
	"nodejoin/steps"
)

// Artifact reads url, file, sha256 and sha512. If need is set, url or file and a digest are required; else
// upstream's address and the lock complete it.
func Artifact(s *eval.Section, at hcl.Range, need bool) steps.Source {
	src := steps.Source{URL: s.Str("url"), SHA256: strings.ToLower(s.Str("sha256")),
		SHA512: strings.ToLower(s.Str("sha512"))}
	if f := s.Str("file"); f != "" {
		src.File = s.Scope.Files.Home(f)
	}
	switch {
	case src.URL != "" && src.File != "": // one that is not known may be null
		s.Fail("file", "arguments exclude each other",
			"An artifact comes from a url, fetched by the host, or from a file of the controller. Remove one of the two.")
	case need && !s.Has("url") && !s.Has("file") && !s.Misspelt("url") && !s.Misspelt("file"):
		s.FailAt(at, "missing argument", "There is neither \"url\" nor \"file\", so there is nothing to install.")
	}
	switch {
	case !strings.HasPrefix(src.URL, "oci:"):
		WebAddress(s, "url")
	case !IsOCI(src.URL):
		s.Fail("url", "invalid URL", "%q is not a file in a registry: oci://registry.example/files/tool:1.0, in lower case "+
			"and with a tag.", src.URL)
	}
	Digest(s, "sha256", src.SHA256)
	Digest(s, "sha512", src.SHA512)
	if need && !s.Has("sha256") && !s.Has("sha512") && !s.Misspelt("sha256") && !s.Misspelt("sha512") {
		s.FailAt(at, "artifact without a digest",
			"Nothing is installed unchecked. Give sha256 or sha512, as its publisher shows it.")
	}
	return src
}

// IsOCI reports whether a text is the address of an artifact in a registry.
func IsOCI(text string) bool { return ociArtifact.MatchString(text) }

// ociArtifact is the address of an artifact in a registry (distribution-spec, "Pulling manifests").
var ociArtifact = regexp.MustCompile(
	`^oci://[^/@?#:]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// Digest checks the digest of an argument that is named after its algorithm; "" = there is none.
func Digest(s *eval.Section, algorithm, digest string) {
	if digest != "" && steps.DigestAlgorithm(digest) != algorithm {
		s.Fail(algorithm, "invalid digest", "A %s digest has %d hex digits; this has %d characters%s.", algorithm,
			2*steps.NewHash(algorithm).Size(), len(digest), notHex(digest))
	}
}

// WebAddress checks an argument that is an address, if it is there.
func WebAddress(s *eval.Section, name string) {
	text := s.Str(name)
	if text == "" {
		return
	}
	if u, err := url.Parse(text); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		s.Fail(name, "invalid URL", "%q is not an http or https address.", text)
	}
}

// notHex returns a note if s has characters other than hex digits, and else "".
func notHex(s string) string {
	if strings.Trim(s, "0123456789abcdef") == "" {
		return ""
	}
	return " and not all are hex digits"
}
