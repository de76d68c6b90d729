package planbundle

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Size is a flag with a number of bytes: 650MB, 4GB. 0 = none.
type Size int64

// least is the smallest part (bytes): what describes a bundle should be in the first.
const least = 1 << 20

var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"GB", 1e9}, {"MB", 1e6}}

// String is the size in bytes.
func (s *Size) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type is the word for it in help.
func (s *Size) Type() string { return "size" }

// Set reads a size.
func (s *Size) Set(text string) error {
	wrong := errors.New("it must be a size from 1MiB on, with MB, GB, MiB or GiB: 650MB, 4GB")
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n*float64(u.bytes) >= least && n*float64(u.bytes) < 1<<60) {
			return wrong
		}
		*s = Size(n * float64(u.bytes))
		return nil
	}
	return wrong
}

// count says how many things there are.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// String says what it has.
func (c *Contents) String() string {
	n := 0
	for _, f := range c.files {
		if f.role == artifact {
			n++
		}
	}
	return count(n, "artifact") + " and " + count(len(c.images), "image")
}

// String says what it has.
func (o *Opened) String() string {
	names := map[string]bool{}
	for _, i := range o.list {
		names[i.Name] = true
	}
	return count(o.artifacts, "artifact") + " and " + count(len(names), "image")
}
