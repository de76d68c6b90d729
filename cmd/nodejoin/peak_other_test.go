//go:build !linux

package main

// mainPeak measures on Linux alone.
func mainPeak() {}
