package main

import "nodejoin/steps/host/linux"

// processRuns tells whether a process of this number runs. One that was killed and that
// nobody has reaped yet does not, which in a container may last for good.
func processRuns(pid int) bool { return linux.Runs(pid) }
