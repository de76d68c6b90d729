package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"nodejoin/steps/host"
	"nodejoin/steps/nodeapi"
	"nodejoin/steps/supervise"
)

// Bounds of the log: bytes of a file, and older files that are kept.
const (
	logSize = 1 << 20
	logKeep = 3
)

type options struct{ name, data, steps, log string }

// Main runs the boot part of this machine's node: once as a program, or as a service of Windows, which then
// keeps logs small until it is stopped. args are
//
//	--name SERVICE --data FOLDER --steps FILE --log FILE
//
// open opens this machine. It gives the exit code: 0 in order or stopped as asked, 1
// failed, 3 a wrong command line.
func Main(args []string, open func(dataDir string) (host.Host, error)) int {
	opt, err := parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return exitUsage
	}
	return supervise.Logged("node", opt.log, logSize, logKeep, func(log io.Writer) int {
		say := SayTo(log)
		keep := func(ctx context.Context) {
			if h, err := open(opt.data); err == nil {
				keepLogs(ctx, h, opt.steps, say)
			}
		}
		return Service{Name: opt.name, Say: say, Keep: keep,
			Work: func(ctx context.Context, report func(Level, string)) error {
				h, err := open(opt.data)
				if err == nil {
					err = Run(ctx, Options{Host: h, Path: opt.steps, LockDir: opt.data, Log: say, Report: report,
						Tokens: nodeapi.Client{}, Reporter: nodeapi.Client{}, Starts: startRound})
				}
				if err != nil && ctx.Err() == nil {
					say("ended: " + err.Error())
				}
				return err
			}}.Run()
	})
}

func parse(args []string) (options, error) {
	var opt options
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for _, f := range []struct {
		to          *string
		name, usage string
	}{{&opt.name, "name", "name of the service"}, {&opt.data, "data", "nodejoin's folder"},
		{&opt.steps, "steps", "file of the steps"}, {&opt.log, "log", "log file"}} {
		flags.StringVar(f.to, f.name, "", f.usage)
	}
	if err := flags.Parse(args); err != nil {
		return opt, err
	}
	if opt.name == "" || opt.data == "" || opt.steps == "" || opt.log == "" || flags.NArg() > 0 {
		return opt, errors.New("want --name SERVICE --data FOLDER --steps FILE --log FILE")
	}
	return opt, nil
}
