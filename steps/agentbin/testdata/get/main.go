// Command get prints where the agent for this machine is, for a test that builds it as a user would.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"nodejoin/steps/agentbin"
)

func main() {
	path, _, err := agentbin.Get(context.Background(), runtime.GOOS, runtime.GOARCH)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(path)
}
