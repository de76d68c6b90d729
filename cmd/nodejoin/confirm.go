package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"nodejoin/plan"
)

// approve asks the question on the terminal. Without a terminal, a plan that has only
// sandboxes needs no approval, and any other is refused with the advice.
func (a *app) approve(ctx context.Context, c *plan.Compiled, question, advice string) error {
	if !a.term.InTTY || a.json {
		for _, n := range c.Nodes {
			if n.Connection.Type != "sandbox" {
				return errors.New("no terminal to ask on: " + advice)
			}
		}
		return nil
	}
	fmt.Fprintf(a.term.Err, "%s Type 'yes' to continue: ", question)
	answer, _ := readLine(ctx, bufio.NewReader(a.term.In)) // without an answer it is empty
	switch {
	case ctx.Err() != nil:
		return a.nothingChanged(exitInterrupted)
	case strings.TrimSpace(answer) != "yes":
		return a.nothingChanged(exitFailed)
	}
	return nil
}

// readLine reads a line, until ctx ends. It may return a last line without a line feed
// and io.EOF.
func readLine(ctx context.Context, in *bufio.Reader) (string, error) {
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() { // reading a terminal cannot be cancelled; this goroutine ends with the process
		s, err := in.ReadString('\n')
		read <- line{s, err}
	}()
	select {
	case l := <-read:
		return l.text, l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// nothingChanged ends a command that was stopped before it changed anything.
func (a *app) nothingChanged(code int) error {
	fmt.Fprintln(a.term.Err, "Nothing was changed.")
	return exitError(code)
}
