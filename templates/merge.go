package templates

import (
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// refMark begins the placeholder of a reference while YAML is read and written. A plain scalar cannot begin
// with it (YAML 1.2, c-reserved), so the writer quotes it and the resolved reference stays a string.
const refMark = "@"

// MergeYAML returns a rendered YAML file after change. References are preserved; keys are sorted, and
// comments other than the first line are lost.
func MergeYAML(text string, change func(map[string]any) map[string]any) (string, error) {
	parts := strings.Split(text, "\x00")
	if len(parts)%2 == 0 {
		return "", fmt.Errorf("unfinished reference in a YAML file")
	}
	// A placeholder that does not occur in the file.
	mark := refMark + "ref"
	for strings.Contains(text, mark) {
		mark += "_"
	}
	stand := func(i int) string { return mark + strconv.Itoa(i) + "." }
	var back []string
	for i := 1; i < len(parts); i += 2 {
		back = append(back, stand(i), "\x00"+parts[i]+"\x00")
		parts[i] = stand(i)
	}
	plain := strings.Join(parts, "")
	base := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(plain), &base); err != nil {
		return "", fmt.Errorf("merge YAML: %w", err)
	}
	out, err := yaml.Marshal(change(base))
	if err != nil {
		return "", fmt.Errorf("merge YAML: %w", err)
	}
	head := ""
	if strings.HasPrefix(plain, "#") {
		head, _, _ = strings.Cut(plain, "\n")
		head += "\n"
	}
	return head + strings.NewReplacer(back...).Replace(string(out)), nil
}
