//go:build !linux

package main

// mainPeak measures on Linux only.
func mainPeak() {}
