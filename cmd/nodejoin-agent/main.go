// Command nodejoin-agent runs the steps of a plan on its machine. It is pushed and started by
// nodejoin over SSH and speaks over its standard input and output; supervise and boot are its
// modes as a service. It reads no plan.
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"nodejoin/steps/artifact"
	"nodejoin/steps/supervise"
	"nodejoin/steps/transport/agent"
	"nodejoin/steps/transport/wire"
)

const usage = `usage: nodejoin-agent serve DATA        answer nodejoin over standard input and output;
                                         DATA is nodejoin's folder, in hex
       nodejoin-agent supervise ARGS...  run a program as a service
       nodejoin-agent boot ARGS...       bring the node back to work after a boot
       nodejoin-agent version [--digest] print the version, or the sha256 of this file
`

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 3
	}
	switch {
	case args[0] == "serve" && len(args) == 2:
		return fail(serve(args[1]))
	case args[0] == "supervise":
		return supervised(args[1:])
	case args[0] == "boot":
		return booted(args[1:])
	case args[0] == "version" && len(args) == 1:
		fmt.Println("nodejoin-agent", version(), runtime.GOOS+"/"+runtime.GOARCH)
		return 0
	case args[0] == "version" && len(args) == 2 && args[1] == "--digest":
		_, digest, err := supervise.Self()
		if err == nil {
			fmt.Println(digest)
		}
		return fail(err)
	}
	fmt.Fprint(os.Stderr, usage)
	return 3
}

func fail(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodejoin-agent:", err)
		return 1
	}
	return 0
}

// serve keeps standard output for messages: what else is printed goes to standard error.
func serve(dataHex string) error {
	out := os.Stdout
	os.Stdout = os.Stderr
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program, digest, err := supervise.Self()
	if err != nil {
		return err
	}
	agent.CrashTo(program + wire.CrashSuffix)
	data, err := hex.DecodeString(dataHex)
	if err != nil || len(data) == 0 {
		return fmt.Errorf("serve: %q is no folder in hex", dataHex)
	}
	dataDir := string(data)
	h, err := native(dataDir)
	if err != nil {
		return err
	}
	store := artifact.New(artifact.Options{BlobDir: agent.BlobDir(runtime.GOOS, dataDir), MachineEnv: h.MachineEnv})
	err = agent.Serve(ctx, os.Stdin, out, agent.Options{Host: crashing(h, dataDir), Artifacts: store,
		DataDir: dataDir, Program: program, Hello: wire.Hello{Protocol: wire.Protocol, Version: version(), OS: runtime.GOOS,
			Arch: runtime.GOARCH, Digest: digest}})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
