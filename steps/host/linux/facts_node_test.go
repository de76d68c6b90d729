//go:build linux

package linux

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSwapBytes(t *testing.T) {
	const head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for text, want := range map[string]uint64{"": 0, head: 0,
		head + "/dev/zram0                              partition\t1048576\t\t0\t\t100\n/swap\\040file   " +
			"file\t\t1024\t0\t-2\n": (1048576 + 1024) << 10,
		head + "broken\n":                         1,
		head + "/x file many 0 -2\n":              1,
		head + "/swap file (deleted) file 8 0 -2": 8 << 10,
	} {
		file := filepath.Join(t.TempDir(), "swaps")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		have, err := swapBytes(file)
		if wrong := want == 1; (err != nil) != wrong || !wrong && have != want {
			t.Errorf("%q: %d, %v; want %d", text, have, err, want)
		}
	}
	if have, err := swapBytes(filepath.Join(t.TempDir(), "absent")); have != 0 || err != nil {
		t.Errorf("a kernel without swap: %d, %v", have, err)
	}
}

func TestCgroupVersion(t *testing.T) {
	f, err := newHost(t).Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := "v1"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil { // only the root of v2 has it
		want = "v2"
	}
	if f.Cgroup != want {
		t.Errorf("version %q, want %q", f.Cgroup, want)
	}
	if have, err := cgroupVersion(filepath.Join(t.TempDir(), "absent")); have != "" || err != nil {
		t.Errorf("a folder that is not there: %q, %v", have, err)
	}
}
