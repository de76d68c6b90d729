package main

import (
	"fmt"
	"os"
)

// supervised runs a program as a service; not part of this build.
func supervised(args []string) int {
	fmt.Fprintln(os.Stderr, "nodejoin-agent: supervise is not part of this build")
	return 1
}
