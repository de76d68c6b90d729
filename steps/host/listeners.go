package host

import (
	"cmp"
	"slices"
)

// SortListeners sorts listeners in the order of Reader.Listeners and removes duplicates of a port, such as
// its IPv4 and IPv6 listeners.
func SortListeners(list []Listener) []Listener {
	slices.SortFunc(list, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), cmp.Compare(b.PID, a.PID))
	})
	return slices.CompactFunc(list, func(a, b Listener) bool { return a.Protocol == b.Protocol && a.Port == b.Port })
}
