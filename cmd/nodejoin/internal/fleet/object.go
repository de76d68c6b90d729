package fleet

import (
	"bytes"
	"encoding/json"
	"strings"

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
	return strings.TrimSuffix(b.String(), "\n"), err
}
