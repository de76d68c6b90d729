package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/wire"
)

// helloBound is how long a started agent may take to say hello. The first start of
// a new program may wait for a virus scanner.
const helloBound = 60 * time.Second

func (s *agentConn) helloBound() time.Duration {
	return s.cfg.boundOf(wire.NoteHello, wire.Bound{Within: helloBound}).Within
}

// is reports whether the agent that said hello is the file of this digest.
func (c *rpc) is(digest string) bool { return c.spoke() && c.said.Digest == digest }

// notFound is how a POSIX shell says that there is no such program (POSIX.1-2017, XCU 2.8.2).
const notFound = "exit status 127"

// ready waits for the agent's hello, and pushes the agent if it is missing or another one. On Windows it
// also tries the path of a POSIX shell.
func (s *agentConn) ready(ctx context.Context) error {
	pushed := false
	var unstarted error // of the path that Windows' own shells take
	for {
		r, p := s.agent()
		err := r.wait(ctx, s.helloBound())
		if err == nil && !r.is(s.file.digest) {
			err = fmt.Errorf("%w: the agent on the machine has another digest: %s", errNoAgent, r.said.Digest)
		}
		if err == nil {
			if r.said.Inside != "" {
				s.cfg.Notify("agent_in_shell", hosttext.Short(hosttext.Line(r.said.Inside)))
			}
			return s.settle(ctx)
		}
		if !errors.Is(err, errNoAgent) {
			return err
		}
		if err := s.refused(r); err != nil {
			return err
		}
		if lost := s.lostBy(); lost != nil {
			return lostConnection(lost)
		}
		if r.spoke() {
			_ = p.Close() // it runs; there is no exit status to wait for
		}
		how := ""
		if !r.absent.Load() {
			how = p.end(exitWait)
			_ = p.Close()
		}
		r.close()
		var failed error
		switch {
		case s.anyShell && !s.file.posix && (pushed || strings.Contains(how, notFound)):
			s.file.posix = true
			if pushed {
				unstarted = s.noStart(how, err)
			}
			failed = s.start(ctx)
		case unstarted != nil:
			return unstarted
		case pushed:
			return s.noStart(how, err)
		default:
			tried := s.sent
			s.sent = true
			pushed, failed = s.door.bring(ctx, tried)
		}
		if failed != nil {
			return s.failed(ctx, failed)
		}
	}
}

// settle has nodejoin's folder on the machine made, or taken from others, by an agent that was just sent and that is
// verified by its digest. It may have done so at its start.
func (s *agentConn) settle(ctx context.Context) (err error) {
	if !s.sent {
		return nil
	}
	s.cfg.Notify("agent_sent", s.file.remote)
	var done wire.Secured
	if r, _ := s.agent(); r.said.Secured != nil {
		if done = *r.said.Secured; r.said.Unsecured != nil {
			hosttext.Strings(r.said.Unsecured)
			err = r.said.Unsecured
		}
	} else {
		err = s.own(ctx, wire.MethodSecure, wire.None{}, &done)
	}
	if err = s.secured(ctx, done, err); err == nil {
		s.sent = false
	}
	return err
}

// secured handles what came of nodejoin's folder.
func (s *agentConn) secured(ctx context.Context, done wire.Secured, err error) error {
	hosttext.Strings(&done)
	for _, path := range done.Moved {
		s.cfg.Notify("moved_foreign", path)
	}
	var se *steps.Error
	if !errors.As(err, &se) || ctx.Err() != nil {
		return err
	}
	ce := &ConnectError{Reason: ReasonAgent, Host: s.name, Summary: "nodejoin's folder cannot be made",
		Detail: s.cfg.DataDir + ": " + err.Error(), Err: err,
		Remedy: "log in as an administrator who may write there, or name another folder with data_dir"}
	if se.Code == steps.CodeNoSpace {
		ce.Remedy = "make room on that disk of the machine, then run the same command again"
	}
	return ce
}

func (s *agentConn) noStart(how string, err error) error {
	detail := s.file.remote + " was sent, but does not start"
	if how != "" {
		detail += ": " + how
	}
	remedy := fmt.Sprintf("check that the machine is %s/%s, that the user may run programs there, and that no "+
		"virus scanner stops them", s.cfg.OS, s.cfg.Arch)
	if s.anyShell {
		remedy += `; the shell of SSH sessions is cmd.exe unless HKLM\SOFTWARE\OpenSSH\DefaultShell says otherwise`
	}
	return &ConnectError{Reason: ReasonAgent, Host: s.name, Summary: "the agent does not start",
		Detail: detail + ": " + err.Error(), Err: err, Remedy: remedy}
}

// refused is the error of an agent that was not run with root's rights; nil if nothing is known of that.
func (s *agentConn) refused(r *rpc) error {
	b := s.become
	if b == nil || r.before.refusal == nil {
		return nil
	}
	e := &ConnectError{Reason: ReasonAuth, Host: s.name, Detail: r.before.refusal.Said}
	if password, err := b.password(s.name); err == nil && password != "" {
		e.Detail = strings.ReplaceAll(e.Detail, password, steps.Hidden) // the machine has it, and may say it
	}
	sudoers := fmt.Sprintf("in sudoers, allow this user to run the agent: see \"Linux without root\" in operations.md. "+
		"Where sudoers has requiretty, except the user from it: Defaults:%s !requiretty", s.user)
	if b.Method == "doas" {
		sudoers = "in doas.conf, permit this user with nopass; doas reads passwords from a terminal only"
	}
	switch r.before.refusal.Why {
	case wire.RefusedPlace:
		e.Reason, e.Summary = ReasonAgent, "root cannot trust the agent's folder"
		e.Remedy = "the home folder of the user and all folders above it must belong to that user or root, and nobody " +
			"else may write to them: chmod go-w"
	case wire.RefusedAbsent:
		e.Reason, e.Summary = ReasonAgent, "there is no "+b.Method+" on the machine"
		e.Remedy = "install it, name the other method in become, or log in as root"
	case wire.RefusedAsking:
		e.Summary = b.Method + " does not run the agent without a password"
		e.Remedy = sudoers
		if b.Method == "sudo" {
			e.Remedy = "name the variable with the password in password_env of become; or, " + sudoers
		}
	case wire.RefusedPassword:
		e.Summary = b.Method + " refuses the password"
		e.Remedy = "set " + b.PasswordEnv + " to the password that " + b.Method + " asks this user for; one wrong try " +
			"was made"
	case wire.RefusedSilent:
		e.Summary = b.Method + " does not answer"
		e.Remedy = "run it by hand on the machine; what asks for more than a password cannot be answered"
	default:
		e.Summary, e.Remedy = b.Method+" does not run the agent", sudoers
	}
	if e.Detail == "" {
		e.Detail = b.Method + " said nothing"
	}
	return e
}
