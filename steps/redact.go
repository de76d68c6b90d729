package steps

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
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
	var out strings.Builder
	for line := range strings.Lines(text) { // no other form is longer than a line
		if mayHide(line) {
			line = redactLine(line)
		}
		out.WriteString(line)
	}
	return out.String()
}

func redactLine(line string) string {
	line = InURL.ReplaceAllString(line, "${1}"+Hidden+"@")
	line = signature.ReplaceAllString(line, "${1}"+Hidden)
	line = jwtForm.ReplaceAllString(line, Hidden)
	line = bootstrapForm.ReplaceAllString(line, Hidden)
	line = bearer.ReplaceAllString(line, "${1}"+Hidden)
	return secretKey.ReplaceAllString(line, `${1}"`+Hidden+`"`)
}

// mayHide reports whether redactLine can change a line. It takes a tenth of the time: most lines have nothing to hide.
func mayHide(line string) bool {
	for i := range len(line) {
		switch c := line[i]; {
		case c >= utf8.RuneSelf, c == '@', c == '?', c == '&': // without case, K is also U+212A, and s U+017F
			return true
		case c == '.' && i+17 <= len(line) && !strings.ContainsFunc(line[i+1:i+17], notOfToken):
			return true
		}
	}
	lower := strings.ToLower(line)
	return slices.ContainsFunc([]string{"token", "pass", "secret", "key", "auth", "bearer", "basic", "eyj"},
		func(word string) bool { return strings.Contains(lower, word) })
}

// notOfToken reports whether the secret of a bootstrap token cannot have r.
func notOfToken(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
