package artifact

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"strings"

	"nodejoin/steps"
)

// basic is the header Authorization of a login at the server of an address (RFC 7617); none without a login, and none
// that others on the way could read.
func basic(ctx context.Context, at string) ([]string, error) {
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
	return []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password))}, nil
}

// toLogIn says what to do about a server that refuses to be read.
func toLogIn(ctx context.Context, server string) string {
	if l, ok := steps.LoginAt(ctx, server); ok {
		return fmt.Sprintf("; it refuses the login of %q, which the login block of the plan for %s gives", l.Username,
			server)
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
