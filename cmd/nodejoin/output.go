package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// output notes the first error of writing results: what nobody could read was not done.
type output struct {
	file *os.File // not embedded: its other methods that write, as WriteString, would not note the error
	mu   sync.Mutex
	err  error
}

// Fd is for the size of a terminal.
func (o *output) Fd() uintptr { return o.file.Fd() }

// Write writes to the file; after an error it drops what comes.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.file.Write(p)
	o.err = err
	return n, err
}

// lost is the error by which results were lost; nil = none.
func (o *output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// withOutput is the exit code of a command, by what became of its results: one that did its work, but whose results
// could not be written, has not succeeded.
func withOutput(code int, lost error, w io.Writer) int {
	if lost == nil {
		return code
	}
	fmt.Fprintln(w, "nodejoin: the results could not be written to standard output:", ui.CleanLine(reason(lost)))
	if code == exitOK || code == exitPending {
		return exitOutput
	}
	return code
}

// reason is the error of a write without the name of the file.
func reason(err error) string {
	text := err.Error()
	return text[strings.LastIndex(text, ": ")+1:]
}

// guarded runs the command of that name and returns its exit code, that of a panic too.
func guarded(w io.Writer, command string, do func() int) (code int) {
	defer func() {
		if p := recover(); p != nil {
			recovered(w, command, p)
			code = exitPanic
		}
	}()
	return do()
}

// recovered writes a report of a panic, which is a defect of nodejoin, with the name of the command, and
// without its arguments, which may hold secrets.
func recovered(w io.Writer, command string, p any) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "nodejoin %s, command %q\npanic: %v\n\n%s", version, command, p, debug.Stack())
	fmt.Fprintf(w, "\nnodejoin: internal error: %s\n", ui.CleanLine(fmt.Sprint(p)))
	f, err := os.CreateTemp("", "nodejoin-panic-*.txt")
	if err == nil {
		_, err = f.Write(b.Bytes())
		if e := f.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		fmt.Fprintf(w, "The report could not be written (%v); it is:\n%s\n", err, b.Bytes())
		return
	}
	fmt.Fprintf(w, "This is a defect of nodejoin, not of the plan or the machines. What was done stays done, and "+
		"the next\nrun goes on from there. Please send the report, which has no arguments or values of yours: %s\n",
		f.Name())
}
