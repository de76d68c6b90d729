package steps

import (
	"regexp"
	"slices"
	"strings"
)

// Hidden stands where a secret is.
const Hidden = "(sensitive)"

var (
	InURL   = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@`)
	atFront = regexp.MustCompile(`^[^/?#\s@]*:[^/?#\s]*@`)
)

// ShowCredentials is text without the user and password that addresses in it carry:
// http://(sensitive)@proxy:3128. They may also stand in front without a scheme, as
// the variables of proxies allow (golang.org/x/net/http/httpproxy).
func ShowCredentials(text string) string {
	text = InURL.ReplaceAllString(text, "${1}"+Hidden+"@")
	return atFront.ReplaceAllString(text, Hidden+"@")
}

// ShowEnvironment is a service's environment as it may be shown; the values of the
// variables that sensitive names are hidden, and credentials in all others.
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
