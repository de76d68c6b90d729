package hosttest

import (
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// features: turning a feature on takes effect after a reboot and can be undone before it.
func (s *suite) features() {
	h := s.Host
	if s.FeaturesUntried {
		return
	}
	if s.Feature == "" {
		_, err := h.Feature(s.ctx, "Containers")
		s.is("read", err, host.ErrUnsupported)
		s.is("enable", h.EnableFeature(s.ctx, "Containers"), host.ErrUnsupported)
		s.is("disable", h.DisableFeature(s.ctx, "Containers"), host.ErrUnsupported)
		return
	}
	want := func(f host.FeatureState) {
		s.Helper()
		for _, name := range []string{s.Feature, strings.ToUpper(s.Feature)} {
			if have, err := h.Feature(s.ctx, name); err != nil || have != f {
				s.Errorf("%s is %q (%v), want %q", name, have, err, f)
			}
		}
	}
	want(host.FeatureOff)
	s.must(h.DisableFeature(s.ctx, s.Feature))
	want(host.FeatureOff)
	for range 2 { // the second time nothing changes
		s.must(h.EnableFeature(s.ctx, s.Feature))
		want(host.FeatureOnPending)
	}
	s.must(h.DisableFeature(s.ctx, s.Feature))
	want(host.FeatureOff)
	const never = "nodejoin-hosttest-never"
	_, err := h.Feature(s.ctx, never)
	s.is("read", err, fs.ErrNotExist)
	s.is("enable", h.EnableFeature(s.ctx, never), fs.ErrNotExist)
	s.is("disable", h.DisableFeature(s.ctx, never), fs.ErrNotExist)
}

// rebootNoted: a note is stored once, however often it is made.
func (s *suite) rebootNoted() {
	before, err := s.Host.RebootNoted(s.ctx)
	s.must(err)
	if !s.Notes {
		return
	}
	for _, what := range []string{"the size of a/b", "x y", "x y"} {
		s.must(s.Host.NoteReboot(s.ctx, what))
	}
	have, err := s.Host.RebootNoted(s.ctx)
	s.must(err)
	want := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(before), "the size of a/b", "x y"))))
	s.equal("notes", have, want)
}
