//go:build !windows

package hostlock

// held: on this system an open file can be replaced and removed.
func held(error) bool { return false }
