package transport

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"

	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/wire"
)

// Become says how a user who is not root runs the agent with root's rights on Linux.
type Become struct {
	Method      string // "sudo" or "doas"
	PasswordEnv string // names the environment variable with the password that sudo asks for; "" = it asks for none
}

// password is what the machine gets when it asks for it.
func (b *Become) password(host string) (string, error) {
	if b == nil || b.PasswordEnv == "" {
		return "", nil
	}
	password := os.Getenv(b.PasswordEnv)
	switch {
	case password == "":
		return "", &ConnectError{Reason: ReasonKey, Host: host, Summary: "no password for " + b.Method,
			Detail: "the environment variable " + b.PasswordEnv + " is not set",
			Remedy: "set it, or remove password_env from become where " + b.Method + " asks for no password"}
	case strings.ContainsAny(password, "\x00\r\n"):
		return "", &ConnectError{Reason: ReasonKey, Host: host, Summary: "no password for " + b.Method,
			Detail: "the environment variable " + b.PasswordEnv + " has more than one line",
			Remedy: "set it without a line feed"}
	}
	return password, nil
}

// become is the command line that starts the agent as the user who logs in and has it run itself with root's rights.
// Nothing that others could have put in the agent's place is started: the shell goes into the folder, which nobody
// can exchange any more then, and looks at its owner and access, then at those of the program and at its digest. The
// line has no quotes within its quotes, as no two shells agree on them.
func (a agentFile) become(b *Become) string {
	name := path.Base(a.remote)
	args := b.Method + " " + hex.EncodeToString([]byte(a.data))
	if b.PasswordEnv != "" {
		args += " password"
	}
	return fmt.Sprintf(`sh -c 'cd ./%s 2>/dev/null && u=$(id -u) && [ "$(stat -c %%u:%%a .)" = $u:700 ] && `+
		`[ -f %s ] && [ ! -L %s ] && [ "$(stat -c %%u:%%a %s)" = $u:700 ] && `+
		`echo "%s  %s" | sha256sum -c >/dev/null 2>&1 || { echo the agent is not there as it was sent >&2; exit 127; }; `+
		`exec ./%s become %s'`,
		path.Dir(a.remote), name, name, name, a.digest, name, name, args)
}

// becoming is what the controller does before the agent with root's rights says hello.
type becoming struct {
	password string // "" = none to give
	refusal  *wire.Refusal
}

// answer takes a message from before the hello; ok is false if it is none of those.
func (b *becoming) answer(method string, params json.RawMessage, send func([]byte) error) (ok bool, err error) {
	switch {
	case method == wire.NoteAsk && b.password != "":
		msg, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": wire.NotePassword,
			"params": wire.Password{Password: b.password}})
		b.password = "" // it is asked for once
		if err != nil {
			return true, err
		}
		return true, send(msg)
	case method == wire.NoteRefused:
		var r wire.Refusal
		if err := json.Unmarshal(params, &r); err != nil {
			return true, err
		}
		hosttext.Strings(&r)
		b.refusal = &r
		return true, nil
	}
	return false, nil
}

// refused is the error of an agent that was not run with root's rights; nil if nothing is known of that.
func (s *sshConn) refused(r *rpc) error {
	b := s.cfg.Become
	if b == nil || r.before.refusal == nil {
		return nil
	}
	e := &ConnectError{Reason: ReasonAuth, Host: s.way.name, Detail: r.before.refusal.Said}
	sudoers := fmt.Sprintf("in sudoers, allow this user to run the agent: see \"Linux without root\" in operations.md. "+
		"Where sudoers has requiretty, except the user from it: Defaults:%s !requiretty", s.way.user)
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
