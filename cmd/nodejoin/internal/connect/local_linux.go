package connect

import (
	"nodejoin/plan"
	"nodejoin/steps/host/linux"
)

// Local opens this machine.
func Local(n plan.Node) (Machine, error) {
	return linux.New(linux.Options{DataDir: n.DataDir})
}
