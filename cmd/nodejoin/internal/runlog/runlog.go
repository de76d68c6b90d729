// Package runlog logs what a command does: for --log-file as JSON lines, for --debug as text. It logs events, which
// have no secrets, and of the command line only the names of flags.
package runlog

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/event"
)

// Log takes what happens. A nil Log takes nothing.
type Log struct {
	to   []*slog.Logger
	file *logFile
}

// logFile keeps the first error of its writes, which slog drops.
type logFile struct {
	*os.File
	err error
}

func (f *logFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if f.err == nil {
		f.err = err
	}
	return n, err
}

// Open appends to a file, unless its name is "", and writes to debug, unless it is nil. Only its owner can read a file
// that is new. A pipe that nobody reads is an error, not a wait.
func Open(file string, debug io.Writer) (*Log, error) {
	if file == "" && debug == nil {
		return nil, nil //nolint:nilnil // a nil Log takes nothing
	}
	l := &Log{}
	all := &slog.HandlerOptions{Level: slog.LevelDebug}
	if file != "" {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--log-file: %w", err)
		}
		l.file = &logFile{File: f}
		l.to = append(l.to, slog.New(slog.NewJSONHandler(l.file, all)))
	}
	if debug != nil {
		l.to = append(l.to, slog.New(slog.NewTextHandler(debug, all)))
	}
	return l, nil
}

func (l *Log) log(level slog.Level, what string, attrs ...slog.Attr) {
	args := make([]any, len(attrs))
	for i, a := range attrs {
		args[i] = a
	}
	for _, to := range l.to {
		write := map[slog.Level]func(string, ...any){slog.LevelDebug: to.Debug, slog.LevelInfo: to.Info,
			slog.LevelWarn: to.Warn, slog.LevelError: to.Error}[level]
		write(what, args...)
	}
}

// Begin logs the start of a command.
func (l *Log) Begin(command, version string, flags []string) {
	if l != nil {
		l.log(slog.LevelInfo, "command", slog.String("command", command), slog.String("version", version),
			slog.Int("pid", os.Getpid()), slog.Any("flags", flags))
	}
}

// Emit logs an event.
func (l *Log) Emit(e event.Event) {
	if l == nil {
		return
	}
	switch e := e.(type) {
	case event.HostState:
		l.log(slog.LevelInfo, "host", slog.String("host", e.Host), slog.String("state", e.State),
			slog.String("detail", ui.CleanLine(e.Detail)))
	case event.StepStarted:
		l.log(slog.LevelDebug, "step started", slog.String("host", e.Host), slog.String("step", e.Step),
			slog.String("kind", e.Kind), slog.String("action", e.Action), slog.String("reason", ui.CleanLine(e.Reason)))
	case event.StepProgress:
		l.log(slog.LevelDebug, "step", slog.String("host", e.Host), slog.String("step", e.Step),
			slog.Int64("done", e.Done), slog.Int64("total", e.Total), slog.String("note", ui.CleanLine(e.Note)))
	case event.StepDone:
		level := slog.LevelInfo
		if e.Result == "failed" {
			level = slog.LevelError
		}
		l.log(level, "step done", slog.String("host", e.Host), slog.String("step", e.Step), slog.String("result", e.Result),
			slog.String("action", e.Action), slog.Duration("took", e.Duration), slog.Int("attempt", e.Attempt),
			slog.String("summary", ui.CleanLine(e.Summary)), slog.String("detail", ui.Clean(e.Detail)))
	case event.Warning:
		l.log(slog.LevelWarn, "warning", slog.String("host", e.Host), slog.String("summary", ui.CleanLine(e.Summary)),
			slog.String("detail", ui.Clean(e.Detail)))
	}
}

// Parallel logs how many hosts were worked on at once, where nodejoin chose that, and why no more.
func (l *Log) Parallel(choice string) {
	if l != nil {
		l.log(slog.LevelInfo, "parallel", slog.String("choice", choice))
	}
}

// End logs the exit code of the command and closes the file.
func (l *Log) End(code int) error {
	if l == nil {
		return nil
	}
	l.log(slog.LevelInfo, "end", slog.Int("exit_code", code))
	if l.file == nil {
		return nil
	}
	err := l.file.err
	if info, statErr := l.file.Stat(); err == nil && statErr == nil && info.Mode().IsRegular() {
		err = l.file.Sync()
	}
	if err = errors.Join(err, l.file.Close()); err != nil {
		return fmt.Errorf("--log-file: %w", err)
	}
	return nil
}
