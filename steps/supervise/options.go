package supervise

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Exit codes of Main.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 3
)

// Delays between the end of the program and its next start, and the time after which it counts as healthy
// and the delay is reset. The bounds are shorter than the kubelet's for containers, because a node has
// nothing better to do.
const (
	defaultDelay = time.Second
	maxDelay     = 30 * time.Second
	healthyAfter = 60 * time.Second
)

// options are the command line.
type options struct {
	name    string
	log     string
	maxSize int64 // bytes of one log file
	keep    int   // older log files
	delay   time.Duration
	command []string
}

func parse(args []string) (options, error) {
	var opt options
	flags := flag.NewFlagSet("supervise", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&opt.name, "name", "", "name of the service")
	flags.StringVar(&opt.log, "log", "", "log file")
	flags.Int64Var(&opt.maxSize, "log-max-size", 10<<20, "bytes after which a new log file begins")
	flags.IntVar(&opt.keep, "log-keep", 5, "older log files that are kept")
	flags.DurationVar(&opt.delay, "restart-delay", defaultDelay, "pause before the first restart; doubles up to 30s")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stderr)
		flags.Usage()
	}
	if err != nil {
		return opt, err
	}
	opt.command = flags.Args()
	var missing []string
	if opt.name == "" {
		missing = append(missing, "--name")
	}
	if opt.log == "" {
		missing = append(missing, "--log")
	}
	if len(opt.command) == 0 {
		missing = append(missing, "a program after --")
	}
	switch {
	case len(missing) > 0:
		return opt, fmt.Errorf("missing: %s", strings.Join(missing, ", "))
	case opt.maxSize < 1 || opt.keep < 0:
		return opt, errors.New("--log-max-size must be at least 1 and --log-keep at least 0")
	case opt.delay <= 0 || opt.delay > maxDelay:
		return opt, fmt.Errorf("--restart-delay must be more than 0 and at most %v", maxDelay)
	}
	return opt, nil
}
