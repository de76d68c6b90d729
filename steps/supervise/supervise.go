// Package supervise runs an ordinary program as a service: it restarts it when it ends, keeps its output in
// a log of bounded size, and ends it with all its children on a stop request.
package supervise

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

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
	return logged("supervise", opt.log, opt.maxSize, opt.keep, opt.name, func(log *log) int { return run(opt, log) })
}

// Logged runs work with a log of its own, as OpenLog makes it, and closes it. It returns the exit code of work, or 1
// if the log does not open or close; program begins the line on standard error that says so.
func Logged(program, path string, max int64, keep int, work func(log io.Writer) int) int {
	return logged(program, path, max, keep, filepath.Base(path), func(log *log) int { return work(log) })
}

// logged is Logged with the mark of the log's own lines.
func logged(program, path string, max int64, keep int, mark string, work func(*log) int) int {
	log, err := openLog(path, max, keep, mark)
	if err != nil {
		fmt.Fprintln(os.Stderr, program+":", err)
		return exitFailed
	}
	code := work(log)
	if err := log.Close(); err != nil {
		fmt.Fprintln(os.Stderr, program+":", err)
		return exitFailed
	}
	return code
}
