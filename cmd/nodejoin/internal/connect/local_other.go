//go:build !linux && !windows

package connect

import (
	"fmt"
	"runtime"

	"nodejoin/plan"
)

// Local returns an error: nodes are Windows or Linux machines.
func Local(n plan.Node) (Machine, error) {
	return nil, fmt.Errorf("%s: connection \"local\" works only on Windows and Linux, not on %s", n.Address, runtime.GOOS)
}
