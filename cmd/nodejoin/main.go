// Command nodejoin joins machines to a Kubernetes cluster by a join plan.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"nodejoin/cmd/nodejoin/internal/thrift"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/selftest"
)

func main() {
	thrift.On()
	os.Exit(run(os.Args[1:]))
}

// run is main with its exit code, so that tests can call it.
func run(args []string) int {
	if len(args) == 1 && args[0] == selftest.ServiceCommand { // before anything is printed: a service has no output
		return selftest.Service()
	}
	// A reader that goes away, as in "nodejoin apply | head", does not end a run in the middle of a change: the write
	// fails instead. Unlike an ignored signal, one that is asked for is not inherited by the programs that we start.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	term := ui.NewTerm()
	out := &output{file: os.Stdout}
	term.Out = out
	code := guarded(term.Err, strings.Join(args[:min(1, len(args))], ""), func() int {
		return runUntilSignal(term, args)
	})
	return withOutput(code, out.lost(), term.Err)
}

// runUntilSignal runs a command that a signal interrupts.
func runUntilSignal(term *ui.Term, args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer term.Abandon() // after a panic
	sig := make(chan os.Signal, 2)
	// Until the process ends: a signal after the summary would give it another exit code than the summary has.
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
			return
		case <-sig:
		}
		briefly(func() {
			term.Notice("\nStopping: finishing the current step. Press Ctrl-C again to stop at once.")
		})
		cancel()
		select {
		case <-ended:
		case <-sig:
			briefly(term.Abandon)
			os.Exit(exitInterrupted)
		}
	}()
	return execute(ctx, &app{term: term}, args)
}

// briefly writes to the terminal, and does not wait for one that takes nothing: a stopped reader of standard error
// does not keep a run from its end.
func briefly(write func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		write()
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// execute runs one command and returns its exit code.
func execute(ctx context.Context, a *app, args []string) int {
	code := executed(ctx, a, args)
	a.agentsStay()
	if c := a.parallel.choice; c != nil {
		a.log.Parallel(c.String())
		if c.Counted() && !a.json && a.display != "quiet" {
			fmt.Fprintln(a.term.Err, "--parallel auto:", c)
		}
	}
	if err := a.log.End(code); err != nil {
		fmt.Fprintln(a.term.Err, "nodejoin:", ui.CleanLine(err.Error()))
		return max(code, exitOutput)
	}
	return code
}

func executed(ctx context.Context, a *app, args []string) int {
	root := newRoot(a, execute) //nolint:contextcheck // cobra hands ctx to each command
	root.SetArgs(args)
	root.SetContext(ctx)
	err := root.Execute()
	var exit exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return int(exit)
	}
	if out, ok := a.term.Out.(*output); ok && out.lost() != nil && errors.Is(err, out.lost()) {
		return exitOutput // run says so
	}
	text := ui.Clean(strings.TrimSpace(err.Error()))
	if a.fails != nil {
		a.fails(text)
	}
	text = "nodejoin: " + text
	if a.term.ErrTTY { // in files and pipes lines stay whole, for grep
		text = ui.Fit(text, min(a.term.Width(), 100))
	}
	fmt.Fprintln(a.term.Err, text)
	return exitInvalid
}
