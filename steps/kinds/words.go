package kinds

import (
	"fmt"
)

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// names are the texts of a list.
func names[T fmt.Stringer](list []T) (out []string) {
	for _, e := range list {
		out = append(out, e.String())
	}
	return out
}

// newName begins the reason for the reboot that a new name of the machine needs.
const newName = "the machine's new name "
