// Command nodejoin-agent runs the steps of a plan on its machine. It is pushed and started by
// nodejoin over SSH and speaks over its standard input and output; supervise and node are its
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
	"strconv"
	"strings"
	"syscall"

	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/host"
	"nodejoin/steps/selftest"
	"nodejoin/steps/supervise"
	"nodejoin/steps/transport/agent"
	"nodejoin/steps/transport/wire"
)

const usage = `usage: nodejoin-agent serve DATA [USER [DIGEST [PACKED SUM]]]
                                         answer nodejoin over standard input and output;
                                         DATA is nodejoin's folder, and on a second line the adapter
                                         whose address counts, in hex; USER is the id of the user
                                         in whose folder this program is, if that is not who runs it;
                                         with the sha256 of this file, make the folder private first;
                                         PACKED is what this file was unpacked from, and SUM its sha256
       nodejoin-agent outside DATA       serve outside the job of the WinRM shell that this runs in
       nodejoin-agent become METHOD DATA [password]
                                         serve with root's rights, by sudo or doas
       nodejoin-agent receive DATA DIGEST SIZE
                                         write parts of an artifact, which come over standard input
       nodejoin-agent supervise ARGS...  run a program as a service
       nodejoin-agent node ARGS...       keep the node in order, as a service
       nodejoin-agent feature CHANGE NAME
                                         turn a feature of Windows on or off, as a service
       nodejoin-agent version [--digest] print the version, or the sha256 of this file
`

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 3
	}
	switch {
	case args[0] == "serve" && len(args) >= 2 && len(args) <= 6 && len(args) != 5:
		return fail(serve(args[1:], ""))
	case args[0] == "outside" && len(args) == 2:
		return outside(args[1])
	case args[0] == "become" && (len(args) == 3 || len(args) == 4 && args[3] == "password"):
		return fail(become(args[1], args[2], len(args) == 4))
	case args[0] == "receive" && len(args) == 4:
		return fail(receive(args[1:]))
	case args[0] == "supervise":
		return supervised(args[1:])
	case args[0] == "node":
		return noded(args[1:])
	case args[0] == "feature":
		return feature(args[1:])
	case args[0] == selftest.ServiceCommand && len(args) == 1:
		return selftest.Service()
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

// outside serves where the end of the shell does not kill it in the middle of a step, if the shell allows that.
func outside(data string) int {
	code, err := agent.Outside("serve", data)
	if errors.Is(err, agent.ErrInside) {
		return fail(serve([]string{data}, err.Error()))
	}
	return max(code, fail(err))
}

// serve keeps standard output for messages: what else is printed goes to standard error.
func serve(args []string, inside string) error {
	collectLater()
	out := os.Stdout
	os.Stdout = os.Stderr
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	agent.CrashTo(program + wire.CrashSuffix)
	data, err := hex.DecodeString(args[0])
	if err != nil || len(data) == 0 {
		return fmt.Errorf("serve: %q is not a folder in hex", args[0])
	}
	owner := 0
	if len(args) > 1 {
		if owner, err = strconv.Atoi(args[1]); err != nil || owner < 0 {
			return fmt.Errorf("serve: %q is not an id of a user", args[1])
		}
	}
	var sent agent.Sent
	if len(args) > 2 {
		sent.Digest = args[2]
	}
	if len(args) > 4 {
		sent.Packed, sent.Sum = args[3], args[4]
	}
	digest, err := agent.Digest(program, owner, sent)
	if err != nil {
		return err
	}
	dataDir, adapter, _ := strings.Cut(string(data), "\n")
	h, err := native(dataDir)
	if err != nil {
		return err
	}
	store := artifact.New(artifact.Options{BlobDir: agent.BlobDir(runtime.GOOS, dataDir), MachineEnv: h.MachineEnv})
	err = agent.Serve(ctx, os.Stdin, out, agent.Options{
		Host: host.OnInterface(crashing(h, dataDir), adapter), Artifacts: store,
		DataDir: dataDir, Program: program, Owner: owner, Secure: sent.Digest,
		Hello: wire.Hello{Protocol: wire.Protocol, Version: version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
			Digest: digest, Inside: inside}})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// receive writes parts of an artifact.
func receive(args []string) error {
	data, err := hex.DecodeString(args[0])
	if err != nil {
		return fmt.Errorf("receive: %q is not a folder in hex", args[0])
	}
	size, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	algorithm := steps.DigestAlgorithm(args[1])
	dataDir, _, _ := strings.Cut(string(data), "\n")
	return agent.Receive(os.Stdin, runtime.GOOS, dataDir, wire.Blob{Algorithm: algorithm, Digest: args[1], Size: size})
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
