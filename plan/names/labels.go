package names

import (
	"regexp"
	"strings"
)

// Lengths are checked apart: in an expression each repetition takes memory, in every run.
var (
	labelForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	dnsForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

// longest is how long a part of a DNS name, the name of a label and its value may be.
const longest = 63

// IsDNS reports whether a name is one of DNS in lower case, with parts of at most 63 characters.
func IsDNS(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if len(part) > longest {
			return false
		}
	}
	return dnsForm.MatchString(name)
}

func isLabel(text string) bool { return len(text) <= longest && labelForm.MatchString(text) }

// BadLabel says why key=value is not a Kubernetes label; "" if it is one (apimachinery
// pkg/util/validation: IsQualifiedName, IsValidLabelValue).
func BadLabel(key, value string) string {
	prefix, name, slash := strings.Cut(key, "/")
	if !slash {
		name = key
	} else if len(prefix) > 253 || !IsDNS(prefix) {
		return "the part before the slash must be a DNS name in lower case"
	}
	if !isLabel(name) {
		return "a name has 1 to 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
	}
	if value != "" && !isLabel(value) {
		return "a value has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
	}
	return ""
}
