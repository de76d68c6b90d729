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

// Programs of Kubernetes take "--node_ip" for "--node-ip".
func TestFlag(t *testing.T) {
	command := []string{"kubelet.exe", "--node_ip=10.0.0.5", "-v", "4", "--config", "c.yaml", "--last"}
	for name, want := range map[string]string{"node-ip": "10.0.0.5", "v": "4", "config": "c.yaml", "last": ""} {
		if have, given := host.Flag(command, name); have != want || !given {
			t.Errorf("--%s is %q, given %v, want %q", name, have, given, want)
		}
	}
	if have, given := host.Flag(command, "4"); given {
		t.Errorf("a value counts as a flag: %q", have)
	}
}
