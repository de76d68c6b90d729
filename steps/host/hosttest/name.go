package hosttest

import (
	"io/fs"
	"strings"
)

// hostName: a new name counts at once, or after the next boot on Windows, and the
// earlier one can be given back.
func (s *suite) hostName() {
	h := s.Host
	before, err := h.HostName(s.ctx)
	s.must(err)
	facts, err := h.Facts(s.ctx)
	s.must(err)
	if before.Now == "" || before.Now != facts.Hostname {
		s.Errorf("the name is %q, and the facts say %q", before.Now, facts.Hostname)
	}
	if !s.Rename {
		return
	}
	const long = "nodejoin-hosttest-1"
	for _, name := range []string{long, long, "nodejoin-2", strings.Repeat("n", 63), before.Next} {
		s.must(h.SetHostName(s.ctx, name))
		want := before
		want.Next = name
		if s.os == "linux" || s.RenamedAtOnce {
			want.Now = name
		}
		have, err := h.HostName(s.ctx)
		s.must(err)
		s.equal("name", have, want)
		if s.RenamedAtOnce {
			continue // what facts take for fixed until the next boot is not read again
		}
		facts, err := h.Facts(s.ctx)
		s.must(err)
		s.equal("name of the facts", facts.Hostname, want.Now)
	}
	for _, name := range []string{"", "a b", "a\nb", `a\b`, strings.Repeat("n", 65)} {
		s.is("rename to "+name, h.SetHostName(s.ctx, name), fs.ErrInvalid)
	}
}
