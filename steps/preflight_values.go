package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"nodejoin/steps/host"
)

// programDirs are the folders in which services find programs: the usual PATH of a
// service manager (systemd.exec(5), "Environment variables").
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// installed reports whether a program is in one of them.
func installed(ctx context.Context, r host.Reader, name string) (bool, error) {
	for _, dir := range programDirs {
		fi, err := r.Stat(ctx, dir+"/"+name)
		if err == nil && !fi.Dir {
			return true, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}

// olderBuild compares builds number by number; parts that want leaves out do not count.
func olderBuild(have, want string) (bool, error) {
	h, hok := buildNumbers(have)
	w, wok := buildNumbers(want)
	if !wok {
		return false, invalid("min_build %q is not a build such as 10.0.17763", want)
	}
	if !hok {
		return false, &Error{Code: CodeFailed, Summary: PreflightSummary, Detail: fmt.Sprintf("its build %q cannot be compared with %s", have, want)}
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

func buildNumbers(s string) ([]uint64, bool) {
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

var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}, {"", 1}}

func parseSize(s string) (uint64, error) {
	for _, u := range sizeUnits {
		num, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
		if err != nil || !(f >= 0) || f*float64(u.bytes) > math.MaxInt64 {
			break
		}
		return uint64(f * float64(u.bytes)), nil
	}
	return 0, invalid("%q is not a size such as 2GiB", s)
}

func formatSize(n uint64) string {
	for _, u := range sizeUnits[:4] {
		if n >= u.bytes {
			return strconv.FormatFloat(math.Floor(float64(n)/float64(u.bytes)*10)/10, 'f', -1, 64) + " " + u.suffix
		}
	}
	return strconv.FormatUint(n, 10) + " bytes"
}
