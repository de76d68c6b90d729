package artifact

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"strings"

	"nodejoin/steps"
)

// bearer begins the header Authorization with a token (RFC 6750).
const bearer = "Bearer "

// own is the header Authorization of a login at the server of an address (RFC 7617 and 6750); none without a login,
// and none that others on the way could read.
func own(ctx context.Context, at string) ([]string, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, plain(err)
	}
	l, ok := steps.LoginAt(ctx, u.Host)
	if !ok {
		return nil, nil
	}
	if u.Scheme != "https" && !loopback(u.Host) {
		return nil, fmt.Errorf("there is a login at %s, and everybody on the way could read it: use https", u.Host)
	}
	if l.Token != "" {
		return []string{bearer + l.Token}, nil
	}
	return []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password))}, nil
}

// toLogIn says what to do about a server that refuses to be read.
func toLogIn(ctx context.Context, server string) string {
	l, ok := steps.LoginAt(ctx, server)
	from := cmp.Or(l.From, "the login block of the plan for "+server)
	switch {
	case ok && l.Token != "":
		return "; it refuses the token, which " + from + " gives"
	case ok:
		return fmt.Sprintf("; it refuses the login of %q, which %s gives", l.Username, from)
	case l.From != "":
		return "; it wants a login, which " + l.From + " gives"
	}
	return fmt.Sprintf("; it wants a login, which a login block of the plan gives: login %q { ... }", server)
}

// loopback reports whether a registry is on this machine. Clients of registries use plain HTTP there.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
