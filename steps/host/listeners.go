package host

import (
	"cmp"
	"slices"
)

// SortListeners puts listeners into the order of Reader.Listeners and keeps one of
// those that hold the same port, as one for IPv4 and one for IPv6 do.
func SortListeners(list []Listener) []Listener {
	slices.SortFunc(list, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), cmp.Compare(b.PID, a.PID))
	})
	return slices.CompactFunc(list, func(a, b Listener) bool { return a.Protocol == b.Protocol && a.Port == b.Port })
}
