package hosttest

import (
	"io/fs"
	"strings"
)

// hostName: a new name takes effect at once, on Windows at the next boot, and the old one can be restored.
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
			continue // facts do not read again what stays the same until the next boot
		}
		facts, err := h.Facts(s.ctx)
		s.must(err)
		s.equal("name of the facts", facts.Hostname, want.Now)
	}
	for _, name := range []string{"", "a b", "a\nb", `a\b`, strings.Repeat("n", 65)} {
		s.is("rename to "+name, h.SetHostName(s.ctx, name), fs.ErrInvalid)
	}
}
