package host

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}, {"", 1},
}

// ParseSize reads a number of bytes that is written like 2GiB.
func ParseSize(s string) (uint64, error) {
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
	return 0, fmt.Errorf("%q is not a size such as 2GiB", s)
}

// FormatSize is a number of bytes as people read it, "1.5 GiB".
func FormatSize(n uint64) string {
	for _, u := range sizeUnits[:4] {
		if n >= u.bytes {
			return strconv.FormatFloat(math.Floor(float64(n)/float64(u.bytes)*10)/10, 'f', -1, 64) + " " + u.suffix
		}
	}
	return strconv.FormatUint(n, 10) + " bytes"
}
