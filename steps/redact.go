package steps

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

var (
	// A key whose end names a secret, and its value on the same line: YAML, JSON, TOML,
	// HCL, NAME=value and flags.
	secretKey = regexp.MustCompile(`(?i)((?:token|password|passwd|passphrase|secret|client-key-data|` +
		`access[-_]?key|private[-_]?key|api[-_]?key|\bauth)["']?[ \t]*[:=][ \t]*)` +
		`("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"',;}\])]+)`)
	bearer = regexp.MustCompile(`(?i)\b((?:bearer|basic)[ \t]+)[A-Za-z0-9._~+/=-]{8,}`)
	// What signs an address, as those of S3, Azure and Google Cloud.
	signature = regexp.MustCompile(`(?i)([?&](?:sig|[a-z-]*signature)=)[^&\s"'<>]+`)
	// ID and secret of a bootstrap token (k8s.io/cluster-bootstrap/token/api, BootstrapTokenPattern).
	bootstrapForm = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	jwtForm       = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`)
	keyWhole      = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?-----END [A-Z0-9 ]*PRIVATE KEY-----`)
	keyEnd        = regexp.MustCompile(`(?s)^.*-----END [A-Z0-9 ]*PRIVATE KEY-----`)
	keyBegin      = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*$`)
)

// Redact is text, a whole file or a part of one, with Hidden where a secret is: the
// known ones, and what has the form of a private key, a token, a password beside its
// name, or credentials in a URL. It hides too much rather than too little.
func Redact(text string, known []string) string {
	known = slices.Clone(known)
	slices.SortFunc(known, func(a, b string) int { return len(b) - len(a) }) // a part of another comes later
	for _, k := range known {
		// Shorter ones are words of the language, not secrets, and would hide all of it.
		if len(k) < 4 {
			continue
		}
		text = strings.ReplaceAll(text, k, Hidden)
		if b, err := json.Marshal(k); err == nil { // as a string of JSON has it
			text = strings.ReplaceAll(text, string(b[1:len(b)-1]), Hidden)
		}
	}
	if strings.Contains(text, "PRIVATE KEY-----") {
		text = keyWhole.ReplaceAllString(text, Hidden)
		text = keyEnd.ReplaceAllString(text, Hidden)
		text = keyBegin.ReplaceAllString(text, Hidden)
	}
	text = InURL.ReplaceAllString(text, "${1}"+Hidden+"@")
	text = signature.ReplaceAllString(text, "${1}"+Hidden)
	text = jwtForm.ReplaceAllString(text, Hidden)
	text = bootstrapForm.ReplaceAllString(text, Hidden)
	text = bearer.ReplaceAllString(text, "${1}"+Hidden)
	return secretKey.ReplaceAllString(text, `${1}"`+Hidden+`"`)
}
