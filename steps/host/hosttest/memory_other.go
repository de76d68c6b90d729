//go:build !linux

package hosttest

// InMemory does nothing: it is for Linux.
func InMemory() {}
