package host_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"nodejoin/steps/host"
)

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		line string
		args []string
	}{
		{`--a=b c`, []string{"--a=b", "c"}},
		{`"C:\Program Files\x.exe" -l C:\var\log\ "a b\\"`, []string{`C:\Program Files\x.exe`, "-l", `C:\var\log\`, `a b\`}},
		{`"say \"hi\""`, []string{`say "hi"`}},
		{`"" --resolv-conf=`, []string{"", "--resolv-conf="}},
	} {
		if have := host.CommandLine(c.args); have != c.line {
			t.Errorf("%q: %s, want %s", c.args, have, c.line)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(rapid.StringOf(rapid.SampledFrom([]rune(`a \"-=ü`+"\t"))), 1, 5).Draw(t, "args")
		if have := host.SplitCommandLine(host.CommandLine(args)); !slices.Equal(have, args) {
			t.Errorf("%q: %s gives %q", args, host.CommandLine(args), have)
		}
	})
}
