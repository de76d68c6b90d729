// Realjoin joins a Windows machine to a control plane that it starts here, disturbs the node, has it leave the
// cluster, and adds what it saw to a file of evidence:
//
//	realjoin -programs FOLDER -address IP -known-hosts FILE -identity FILE [flags]
//
// FOLDER is what "go run ./components -pack FOLDER" makes, with nodejoin in it. The working folder is the root of the
// repository. The machine is reached over SSH; it may be the one that realjoin runs on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// within bounds the whole run.
const within = 60 * time.Minute

// options are the flags.
type options struct {
	programs, address                string
	name, host, user, identity       string
	port                             int
	knownHosts, evidence, run        string
	restartHNS, reboot, shell, image string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "realjoin:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	var o options
	for _, f := range []struct {
		to                 *string
		name, value, usage string
	}{
		{&o.programs, "programs", "", "folder of the programs and artifacts"},
		{&o.address, "address", "", "address of this machine, as the Windows machine reaches it"},
		{&o.name, "name", "win-1", "name of the Node"},
		{&o.host, "host", "127.0.0.1", "address of the Windows machine"},
		{&o.user, "user", "Administrator", "who logs in"},
		{&o.identity, "identity", "", "file of the private key"},
		{&o.knownHosts, "known-hosts", "", "file with the machine's host key"},
		{&o.evidence, "evidence", "evidence", "folder for the file of evidence"},
		{&o.run, "run", "", "address of the run that anyone can look up"},
		{&o.restartHNS, "restart-hns", "", "command line that restarts HNS on the machine; none: it is not restarted"},
		{&o.reboot, "reboot", "", "command line that reboots the machine and waits for it; none: it is not rebooted"},
		{&o.image, "image", "", "image of a pod that waits, as registry.k8s.io/pause:3.10; none: no pod"},
		{&o.shell, "shell", "bash", "shell of these command lines, which takes -c"},
	} {
		flag.StringVar(f.to, f.name, f.value, f.usage)
	}
	flag.IntVar(&o.port, "port", 22, "port of the machine's SSH server")
	flag.Parse()
	if o.programs == "" || o.address == "" || o.identity == "" || o.knownHosts == "" || flag.NArg() > 0 {
		return errors.New("want -programs, -address, -identity and -known-hosts")
	}
	for _, path := range []*string{&o.programs, &o.identity, &o.knownHosts, &o.evidence} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not done within %v", within))
	defer cancel()
	j, err := newJoin(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	return j.ask(ctx)
}
