package host

import (
	"fmt"
	"strconv"
	"strings"
)

// OlderBuild compares builds ("10.0.20348") number by number; parts that want leaves out do not count. A text that
// is not a build is an error.
func OlderBuild(have, want string) (bool, error) {
	h, hok := BuildNumbers(have)
	w, wok := BuildNumbers(want)
	if !wok {
		return false, fmt.Errorf("%q is not a build such as 10.0.17763", want)
	}
	if !hok {
		return false, fmt.Errorf("the machine's build %q cannot be compared with %s", have, want)
	}
	for i, n := range w {
		if i >= len(h) {
			return n > 0, nil
		}
		if h[i] != n {
			return h[i] < n, nil
		}
	}
	return false, nil
}

// BuildNumbers are the parts of a build.
func BuildNumbers(s string) ([]uint64, bool) {
	var out []uint64
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}
