// Command gen builds the agents that a release embeds into steps/agentbin/bin. It
// runs in the folder of agentbin: `go generate ./steps/agentbin`, then
// `go build -tags embedagent ./cmd/nodejoin`.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"nodejoin/steps/agentbin"
)

func main() {
	for _, t := range agentbin.Targets {
		goos, goarch, _ := strings.Cut(t, "/")
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w",
			"-o", filepath.Join("bin", goos+"-"+goarch), "../../cmd/nodejoin-agent")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "build the agent for %s: %v\n", t, err)
			os.Exit(1)
		}
	}
}
