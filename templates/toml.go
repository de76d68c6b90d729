package templates

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// bareRef matches a reference that is a whole value without quotes: it resolves to a number or a boolean.
var bareRef = regexp.MustCompile("(?m)= (\x00[^\x00]*\x00)$")

// MergeTOML returns a rendered TOML file after change. References are preserved; keys are sorted, and comments
// other than the first line are lost. A whole number of change becomes an integer.
func MergeTOML(text string, change func(map[string]any) map[string]any) (string, error) {
	mark := refMark + "ref"
	for strings.Contains(text, mark) {
		mark += "_"
	}
	var back []string
	stand := func(ref, quote string) string {
		s := quote + mark + strconv.Itoa(len(back)) + "." + quote
		back = append(back, s, ref)
		return s
	}
	plain := bareRef.ReplaceAllStringFunc(text, func(m string) string {
		return "= " + stand(strings.TrimPrefix(m, "= "), "'")
	})
	parts := strings.Split(plain, "\x00")
	if len(parts)%2 == 0 {
		return "", fmt.Errorf("unfinished reference in a TOML file")
	}
	for i := 1; i < len(parts); i += 2 {
		parts[i] = stand("\x00"+parts[i]+"\x00", "")
	}
	plain = strings.Join(parts, "")
	base := map[string]any{}
	if err := toml.Unmarshal([]byte(plain), &base); err != nil {
		return "", fmt.Errorf("merge TOML: %w", err)
	}
	out, err := toml.Marshal(integers(change(base)))
	if err != nil {
		return "", fmt.Errorf("merge TOML: %w", err)
	}
	head := ""
	if strings.HasPrefix(plain, "#") {
		head, _, _ = strings.Cut(plain, "\n")
		head += "\n"
	}
	return head + strings.NewReplacer(back...).Replace(string(out)), nil
}

// integers makes the whole numbers of JSON integers, which TOML keeps apart from other numbers.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case map[string]any:
		for k, e := range v {
			v[k] = integers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = integers(e)
		}
	}
	return v
}
