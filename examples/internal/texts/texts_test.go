package texts

import (
	"os"
	"regexp"
	"testing"
)

// poor are words that do not help the reader, or that the style forbids. "%!" marks a mistake in a fmt call.
var poor = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(unmarshal|strconv|nil pointer|goroutine|panic:)`),
	regexp.MustCompile(`%!|\bcty\b|map of object`),
	regexp.MustCompile(`\b(tells whether|anew|mends?|mended|for ever|gives back|takes back|asked for again)\b`),
	regexp.MustCompile(`\b(is|are) no [A-Z]|without a word|can be asked here|is to be changed\b`),
	regexp.MustCompile(`(?i)^(error|failed|could not|unable)\b:? *$`),
	regexp.MustCompile(`[^\n ]  | ,| $`),
}

// TestTexts: no text of an error, a warning or a diagnostic has such words. With -v it prints all of them.
func TestTexts(t *testing.T) {
	list, err := List(os.DirFS("../../.."), "cmd", "plan", "steps", "templates")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 1000 {
		t.Errorf("only %d texts were found", len(list))
	}
	for _, text := range list {
		t.Logf("%s: %s: %q", text.Place, text.Is, text.Text)
		for _, p := range poor {
			if word := p.FindString(text.Text); word != "" {
				t.Errorf("%s: %q in %q", text.Place, word, text.Text)
			}
		}
	}
}
