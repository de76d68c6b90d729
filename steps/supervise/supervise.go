// Package supervise runs a program that is no service of its own (flanneld) as
// one: it starts it, restarts it with a growing pause when it ends, keeps its
// output in a rotated log, and ends its whole process tree when it is stopped.
// On Windows it answers the service control manager, elsewhere SIGTERM.
package supervise

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	maxDelay     = 30 * time.Second // the pause between restarts grows to this
	healthyAfter = 60 * time.Second // a run this long sets the pause back
	stopTimeout  = 15 * time.Second // what a program has to end by itself
)

type config struct {
	name    string
	log     string
	logSize int64
	logKeep int
	delay   time.Duration
	command []string
}

func parse(args []string, out io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("supervise", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&c.name, "name", "", "name of the service")
	f.StringVar(&c.log, "log", "", "log `file`")
	f.Int64Var(&c.logSize, "log-max-size", 10<<20, "`bytes` after which the log is rotated")
	f.IntVar(&c.logKeep, "log-keep", 5, "number of rotated logs to keep")
	f.DurationVar(&c.delay, "restart-delay", time.Second, "first pause before a restart; doubles to 30s")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.command = f.Args()
	switch {
	case c.name == "":
		return c, errors.New("--name is missing")
	case c.log == "":
		return c, errors.New("--log is missing")
	case len(c.command) == 0:
		return c, errors.New("no program after --")
	case c.logSize <= 0 || c.logKeep < 0 || c.delay <= 0:
		return c, errors.New("--log-max-size and --restart-delay must be positive, --log-keep not negative")
	}
	return c, nil
}

// Main runs the supervisor until it is told to stop and gives the exit code:
// 0 stopped, 1 failed, 3 wrong usage.
func Main(args []string) int {
	c, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return 3
	}
	w, err := openLog(c.log, c.logSize, c.logKeep)
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return 1
	}
	defer w.Close()
	if err := serve(c, w); err != nil {
		note(w, "%v", err)
		return 1
	}
	return 0
}

// note writes a line of the supervisor itself into the program's log.
func note(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "%s supervise: %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), fmt.Sprintf(format, args...))
}

// run keeps the program running until ctx ends. started is called after each start.
func run(ctx context.Context, c config, w io.Writer, started func()) error {
	delay := c.delay
	for {
		begun := time.Now()
		p, err := start(c.command, w)
		if err != nil {
			note(w, "start %s: %v", c.command[0], err)
		} else {
			note(w, "started %s, process %d", c.command[0], p.pid())
			started()
			select {
			case err = <-p.done:
				p.release()
				note(w, "process %d ended: %v", p.pid(), ended(err))
			case <-ctx.Done():
				note(w, "stopping process %d", p.pid())
				return end(p, w)
			}
		}
		if time.Since(begun) >= healthyAfter {
			delay = c.delay
		}
		note(w, "restart in %s", delay)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		delay = min(2*delay, maxDelay)
	}
}

func ended(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// end asks the program to end and, after stopTimeout, ends its process tree.
func end(p *process, w io.Writer) error {
	defer p.release()
	if err := p.ask(); err != nil {
		note(w, "ask process %d to end: %v", p.pid(), err)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case err := <-p.done:
		note(w, "process %d ended: %s", p.pid(), ended(err))
		return p.kill() // what it left running
	case <-timer.C:
	}
	if err := p.kill(); err != nil {
		return fmt.Errorf("kill process %d: %w", p.pid(), err)
	}
	timer.Reset(stopTimeout)
	select {
	case <-p.done:
		note(w, "process %d killed after %s", p.pid(), stopTimeout)
		return nil
	case <-timer.C:
		return fmt.Errorf("process %d did not end when killed", p.pid())
	}
}
