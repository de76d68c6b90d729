package names

import (
	"regexp"
	"strings"
)

var (
	labelName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
	dnsName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
)

// IsDNS reports whether a name is one of DNS in lower case, with parts of at most 63 characters.
func IsDNS(name string) bool { return dnsName.MatchString(name) }

// BadLabel says why key=value is not a Kubernetes label; "" if it is one (apimachinery
// pkg/util/validation: IsQualifiedName, IsValidLabelValue).
func BadLabel(key, value string) string {
	prefix, name, slash := strings.Cut(key, "/")
	if !slash {
		name = key
	} else if len(prefix) > 253 || !dnsName.MatchString(prefix) {
		return "the part before the slash must be a DNS name in lower case"
	}
	if !labelName.MatchString(name) {
		return "a name has 1 to 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
	}
	if value != "" && !labelName.MatchString(value) {
		return "a value has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
	}
	return ""
}
