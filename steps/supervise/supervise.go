// Package supervise runs an ordinary program as a service: it restarts it when it ends, keeps its output in
// a log of bounded size, and ends it with all its children on a stop request.
package supervise

import (
	"context"
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

// stopGrace is the time between the request to end and the end by force; killGrace
// that in which a killed program must be gone. Together they stay below the 20 s in
// which Windows wants services to end at a shutdown (WaitToKillServiceTimeout).
const (
	stopGrace = 10 * time.Second
	killGrace = 5 * time.Second
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

// Main runs a program until it is stopped: by the service manager that started it (Windows), or by SIGTERM
// or an interrupt. args are
//
//	--name NAME --log FILE [--log-max-size BYTES] [--log-keep N] [--restart-delay D] -- PROGRAM [ARG...]
//
// It returns the exit code: 0 stopped on request, 1 the program could not be started the first time or the
// log not opened, 3 wrong command line.
func Main(args []string) int {
	opt, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return exitUsage
	}
	log, err := openLog(opt.log, opt.maxSize, opt.keep, opt.name)
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return exitFailed
	}
	code := run(opt, log)
	if err := log.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return exitFailed
	}
	return code
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

// program is one run of the supervised program.
type program interface {
	// Ended is closed once the program has ended.
	Ended() <-chan struct{}
	// Result is how it ended, once it has.
	Result() string
	// Interrupt asks the program to end.
	Interrupt() error
	// Kill kills the program and its children.
	Kill() error
	// Release frees what outlives the program, once it has ended.
	Release() error
	String() string
}

// supervisor keeps one program running.
type supervisor struct {
	delay time.Duration
	log   *log
	start func() (program, error)
	// started is called once, after the first start.
	started func()
}

// run keeps the program running until ctx ends, then ends it. It fails only if the first start fails or the
// program does not end.
func (s *supervisor) run(ctx context.Context) error {
	delay := s.delay
	for first := true; ; first = false {
		begun := time.Now()
		p, err := s.start()
		switch {
		case err != nil && first:
			s.log.Say("not started: %v", err)
			return err
		case err != nil:
			s.log.Say("not started: %v", err)
		default:
			s.log.Say("started %s", p)
			if first {
				s.started()
			}
			select {
			case <-ctx.Done():
				return s.end(p)
			case <-p.Ended():
			}
			s.log.Say("ended by itself after %v: %s", time.Since(begun).Round(time.Millisecond), p.Result())
			// Processes that the program left behind must not interfere with the next run.
			if err := errors.Join(p.Kill(), p.Release()); err != nil {
				s.log.Say("clear away: %v", err)
			}
			if time.Since(begun) >= healthyAfter {
				delay = s.delay
			}
		}
		s.log.Say("next start in %v", delay)
		pause := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			pause.Stop()
			s.log.Say("stopped")
			return nil
		case <-pause.C:
		}
		delay = min(2*delay, maxDelay)
	}
}

// end ends a running program, by force if necessary.
func (s *supervisor) end(p program) error {
	s.log.Say("stopping %s", p)
	if err := p.Interrupt(); err != nil {
		s.log.Say("it cannot be asked to end: %v", err)
	} else if !within(stopGrace, p.Ended()) {
		s.log.Say("it did not end within %v", stopGrace)
	}
	err := p.Kill()
	if !within(killGrace, p.Ended()) {
		err = errors.Join(err, fmt.Errorf("%s was killed and has not ended after %v", p, killGrace))
		s.log.Say("%v", err)
		return err
	}
	if err = errors.Join(err, p.Release()); err != nil {
		s.log.Say("clear away: %v", err)
	}
	s.log.Say("stopped: %s", p.Result())
	return nil
}

func within(bound time.Duration, done <-chan struct{}) bool {
	limit := time.NewTimer(bound)
	defer limit.Stop()
	select {
	case <-done:
		return true
	case <-limit.C:
		return false
	}
}
