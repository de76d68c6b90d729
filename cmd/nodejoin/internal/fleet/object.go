package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"nodejoin/steps/kube"
)

func object(version, kind, namespace, name string) kube.Manifest {
	return kube.Manifest{APIVersion: version, Kind: kind, Namespace: namespace, Name: name, Object: map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace,
			"labels": map[string]any{"app.kubernetes.io/managed-by": "nodejoin"}}}}
}

func field(o map[string]any, name string) map[string]any {
	f, _ := o[name].(map[string]any)
	return f
}

func number(v any) int {
	n, _ := v.(float64)
	return int(n)
}

func text(o map[string]any, name string) string {
	s, _ := field(o, "metadata")[name].(string)
	return s
}

func list(s []string) string {
	text, err := quote(s)
	if err != nil {
		return "[]" // strings can be written
	}
	return text
}

// quote is a value as JSON, which YAML reads.
func quote(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return escaped(strings.TrimSuffix(b.String(), "\n")), err
}

// escaped is JSON without the characters that YAML does not allow, or reads as the end of a line (YAML 1.1, 5.1 and
// 5.4).
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// word is a name as YAML, in quotes where it would be a number or a boolean without.
func word(name string) string {
	text, err := yaml.Marshal(name)
	if err != nil {
		return strconv.Quote(name) // strings can be written
	}
	return strings.TrimSuffix(string(text), "\n")
}
