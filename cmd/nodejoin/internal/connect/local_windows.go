package connect

import (
	"nodejoin/plan"
	"nodejoin/steps/host/windows"
)

// Local opens this machine.
func Local(n plan.Node) (Machine, error) {
	return windows.New(windows.Options{DataDir: n.DataDir})
}
