package kinds

import (
	"bytes"
	"fmt"
	"path"

	"nodejoin/steps"
)

// goBuildInfo is in every program that Go has linked and nobody has packed since
// (debug/buildinfo).
const goBuildInfo = "\xff Go buildinf:"

// versionScan looks into a program, as its bytes go by, for the version that it is to tell
// of itself. It lies in it as it is printed: the linker puts it there (-X gitVersion=...).
type versionScan struct {
	want        string
	isGo, found bool
	tail        []byte // the last bytes, in which either may begin
}

func (s *versionScan) Write(p []byte) (int, error) {
	s.tail = append(s.tail, p...)
	s.isGo = s.isGo || bytes.Contains(s.tail, []byte(goBuildInfo))
	s.found = s.found || bytes.Contains(s.tail, []byte(s.want))
	keep := max(len(goBuildInfo), len(s.want)) - 1
	if cut := len(s.tail) - keep; cut > 0 {
		s.tail = append(s.tail[:0], s.tail[cut:]...)
	}
	return len(p), nil
}

// scanFor is what looks into a member of an archive whose programs have these versions; nil = nothing is known of it.
func scanFor(member string, versions map[string]string) *versionScan {
	if want := versions[path.Base(member)]; want != "" {
		return &versionScan{want: want}
	}
	return nil
}

// fault is the error of a program that does not tell the wanted version; nil if it does, or if it is none that can
// be looked into.
func (s *versionScan) fault(member, archive string) error {
	if s == nil || s.found || !s.isGo {
		return nil
	}
	return &steps.Error{Code: steps.CodeOtherVersion, Summary: "the artifact is another version",
		Detail: fmt.Sprintf("the plan wants %s of version %s, and the one in %s, which has the digest of the plan, is "+
			"not: %q does not occur in it", path.Base(member), s.want, archive, s.want),
		Remedy: "nothing of it was kept; give the artifact the digest of that version, and the mirror its archive, or " +
			"write the version of the archive into the plan"}
}
