package main

import (
	"nodejoin/plan"
	"nodejoin/steps/host/windows"
)

// localHost is this machine.
func localHost(n plan.Node) (localMachine, error) {
	return windows.New(windows.Options{DataDir: n.DataDir})
}
