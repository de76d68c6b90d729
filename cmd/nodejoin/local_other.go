//go:build !linux && !windows

package main

import (
	"fmt"
	"runtime"

	"nodejoin/plan"
)

// localHost: nodes are Windows or Linux machines.
func localHost(n plan.Node) (localMachine, error) {
	return nil, fmt.Errorf("%s: connection \"local\" works only on Windows and Linux, not on %s", n.Address, runtime.GOOS)
}
