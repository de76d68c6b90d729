package transport

import (
	"encoding/json"
	"os"
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
