package main

import "nodejoin/steps/host/linux"

// processRuns reports whether a process with this number is running. One that was killed
// and not yet reaped is not; in a container it may stay like that forever.
func processRuns(pid int) bool { return linux.Runs(pid) }
