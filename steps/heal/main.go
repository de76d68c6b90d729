package heal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/supervise"
)

// Exit codes of Main.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 3
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
		fmt.Fprintln(os.Stderr, "boot:", err)
		return exitUsage
	}
	log, err := supervise.OpenLog(opt.log, logSize, logKeep)
	if err != nil {
		fmt.Fprintln(os.Stderr, "boot:", err)
		return exitFailed
	}
	say := SayTo(log)
	keep := func(ctx context.Context) {
		if h, err := open(opt.data); err == nil {
			keepLogs(ctx, h, opt.steps, say)
		}
	}
	code := Service{Name: opt.name, Say: say, Keep: keep,
		Work: func(ctx context.Context, report func(Level, string)) error {
			h, err := open(opt.data)
			if err == nil {
				err = Run(ctx, Options{Host: h, Path: opt.steps, LockDir: opt.data, Log: say, Report: report})
			}
			if err != nil && ctx.Err() == nil {
				say("ended: " + err.Error())
			}
			return err
		}}.Run()
	if err := log.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "boot:", err)
		return exitFailed
	}
	return code
}

func parse(args []string) (options, error) {
	var opt options
	flags := flag.NewFlagSet("boot", flag.ContinueOnError)
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

// Service is work that is done once after each boot, as a service of Windows where its
// service manager has started this process.
type Service struct {
	Name string
	Say  func(line string) // writes to the log
	// Work ends with ctx. report writes to the machine's own event log.
	Work func(ctx context.Context, report func(Level, string)) error
	// Keep runs beside the work, and after it, in a service of Windows, until ctx ends; may be nil.
	Keep func(ctx context.Context)
	// Ends says that the service ends with its work. Others count as running until they are stopped.
	Ends bool
}

// SayTo writes lines with the time (UTC) before them.
func SayTo(w io.Writer) func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		// the log counts what it could not write
		fmt.Fprintf(w, "%s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), line)
	}
}
