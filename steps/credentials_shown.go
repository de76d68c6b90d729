package steps

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Hidden stands where a secret is.
const Hidden = "(sensitive)"

var (
	// InURL matches the scheme and the credentials of an address; its group is the scheme.
	InURL   = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@`)
	atFront = regexp.MustCompile(`^[^/?#\s@]*:[^/?#\s]*@`)
)

// ShowCredentials hides the user and password of each address in text:
// http://(sensitive)@proxy:3128. An address at the start needs no scheme, as in proxy
// variables (golang.org/x/net/http/httpproxy).
func ShowCredentials(text string) string {
	text = InURL.ReplaceAllString(text, "${1}"+Hidden+"@")
	return atFront.ReplaceAllString(text, Hidden+"@")
}

// ShowURL is an address without what may be secret in it: password, a user without one (it may be a token), query (as
// of presigned addresses) and fragment.
func ShowURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the address"
	}
	if u.RawQuery != "" {
		u.RawQuery = "..."
	}
	if u.User != nil {
		if _, with := u.User.Password(); !with {
			u.User = url.User("xxxxx")
		}
	}
	u.Fragment, u.RawFragment = "", ""
	return u.Redacted()
}

// ShowEnvironment hides the values of the sensitive variables of a service's environment,
// and credentials in all others.
func ShowEnvironment(environment, sensitive []string) []string {
	out := make([]string, 0, len(environment))
	for _, v := range environment {
		name, value, _ := strings.Cut(v, "=")
		value = ShowCredentials(value)
		if slices.Contains(sensitive, name) {
			value = Hidden
		}
		out = append(out, name+"="+value)
	}
	return out
}
