package steps

import (
	"context"
	"strings"
)

// Login is a user of a server that artifacts are fetched from, or a token for it. It is in requests to change a
// machine, and in nothing that is kept.
type Login struct {
	Server   string `json:"server"` // host, or host:port if that is not 443; it alone gets the password or token
	Username string `json:"username"`
	Password string `json:"password"`
	Token    string `json:"token,omitempty"` // taken as it is, instead of a user
	// From is what gives it, for messages: "the file /etc/login.json"; "" = the login block of the plan. Without a user
	// and a token it is what would give them, and there is no login.
	From string `json:"-"`
}

type loginsKey struct{}

// WithLogins returns a context in which artifacts are fetched with logins.
func WithLogins(ctx context.Context, logins []Login) context.Context {
	if len(logins) == 0 {
		return ctx
	}
	return context.WithValue(ctx, loginsKey{}, logins)
}

// LoginAt returns the login at a server, host or host:port as in an address; ok is false if there is none. Then l.From
// may say what would give it.
func LoginAt(ctx context.Context, server string) (l Login, ok bool) {
	logins, _ := ctx.Value(loginsKey{}).([]Login) // none without the key
	for _, l := range logins {
		if bare(l.Server) == bare(server) {
			return l, l.Username != "" || l.Token != ""
		}
	}
	return l, false
}

// bare is a server without the port of https.
func bare(server string) string { return strings.TrimSuffix(strings.ToLower(server), ":443") }
