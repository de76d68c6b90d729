//go:build !windows

package hostlock

// held: here a file that is open can be replaced and removed.
func held(error) bool { return false }
