package hosttest

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"nodejoin/steps/host"
)

// programRun: the exit code, the output, and absence. A log is truncated first.
func (s *suite) programRun() {
	p, prints := s.Once(s.T)
	p.Log = s.path("logs", "once.log")
	s.put(p.Log, "of an earlier run")
	for range 2 {
		code, err := s.Host.RunProgram(s.ctx, p)
		s.must(err)
		s.equal("exit code", code, 3)
		s.content(p.Log, prints)
	}
	info, err := s.Host.Stat(s.ctx, p.Log)
	s.must(err)
	s.equal("access of the log", info.Access, host.AccessPrivate)

	p.Command = []string{s.path("no-such-program.exe")}
	_, err = s.Host.RunProgram(s.ctx, p)
	s.is("a program that is not there", err, fs.ErrNotExist)
	_, err = s.Host.RunProgram(s.ctx, host.Program{Log: p.Log})
	s.isNoAnswer("no command", err)
}

// programKilled: when the context ends the program is killed, and its file can be removed.
func (s *suite) programKilled() {
	cause := errors.New("it takes too long")
	ctx, cancel := context.WithTimeoutCause(s.ctx, time.Second, cause)
	defer cancel()
	code, err := s.Host.RunProgram(ctx, host.Program{Command: s.Endless, Log: s.path("endless.log")})
	if code != 0 {
		s.Errorf("exit code %d of a program that did not end", code)
	}
	s.is("a program that is killed", err, cause)
	s.must(s.Host.Remove(s.ctx, s.path("endless.log"))) // nothing writes to it
}
