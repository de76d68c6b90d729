package main

import (
	"nodejoin/plan"
	"nodejoin/steps/host/linux"
)

// localHost is this machine.
func localHost(n plan.Node) (localMachine, error) {
	return linux.New(linux.Options{DataDir: n.DataDir})
}
