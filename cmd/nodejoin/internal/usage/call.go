package usage

import (
	"regexp"
	"strings"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+-]+$`)

// Call is a command for the same plan, environment and variables, to copy. Values of variables are not in it, because
// they may be secret.
func Call(command, plan, environment string, varFiles, vars []string) string {
	words := []string{"nodejoin", command}
	if environment != "" {
		words = append(words, "--env", word(environment))
	}
	for _, f := range varFiles {
		words = append(words, "--var-file", word(f))
	}
	for _, v := range vars {
		name, _, _ := strings.Cut(v, "=")
		words = append(words, "--var", word(name+"=..."))
	}
	if plan != "." {
		words = append(words, word(plan))
	}
	return strings.Join(words, " ")
}

// word is a word for a shell.
func word(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
