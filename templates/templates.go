// Package templates holds the files that nodejoin renders onto a node, and one typed function for each.
//
// A value may contain references to facts and to outputs of earlier steps (text between two NUL characters,
// see steps.Ref). Rendering and quoting leave them unchanged, and they are resolved later without quoting:
// refer only to values that need none in the file's format, such as addresses and networks.
package templates

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
)

//go:embed files/*
var files embed.FS

var parsed = template.Must(template.New("").Option("missingkey=error").Funcs(template.FuncMap{
	"json": quoteJSON, "yaml": quoteYAML, "toml": quoteTOML, "indent": indent,
}).ParseFS(files, "files/*"))

// render returns the text of one file. A value that its format cannot represent is an error.
func render(name string, data any) (string, error) {
	var b bytes.Buffer
	if err := parsed.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return b.String(), nil
}

// quoteJSON writes a JSON string.
func quoteJSON(s string) (string, error) {
	text, err := outsideRefs(s, escapeJSON)
	return `"` + text + `"`, err
}

// quoteYAML writes a single-quoted YAML scalar, which keeps backslashes readable.
func quoteYAML(s string) (string, error) {
	text, err := outsideRefs(s, func(t string) (string, error) {
		if i := strings.IndexFunc(t, isControl); i >= 0 {
			return "", fmt.Errorf("control character %q in %q", t[i], t)
		}
		return strings.ReplaceAll(t, "'", "''"), nil
	})
	return "'" + text + "'", err
}

// quoteTOML writes a literal TOML string if it can represent s, otherwise a basic one.
func quoteTOML(s string) (string, error) {
	literal := true
	if _, err := outsideRefs(s, func(t string) (string, error) {
		literal = literal && !strings.ContainsFunc(t, func(r rune) bool { return r == '\'' || isControl(r) })
		return t, nil
	}); err != nil {
		return "", err
	}
	if literal {
		return "'" + s + "'", nil
	}
	return quoteJSON(s) // every JSON string is a TOML basic string
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

func escapeJSON(s string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`), nil
}

// outsideRefs applies f to the text around the references of s.
func outsideRefs(s string, f func(string) (string, error)) (string, error) {
	parts := strings.Split(s, "\x00")
	if len(parts)%2 == 0 {
		return "", fmt.Errorf("unfinished reference in %q", s)
	}
	for i := 0; i < len(parts); i += 2 {
		text, err := f(parts[i])
		if err != nil {
			return "", err
		}
		parts[i] = text
	}
	return strings.Join(parts, "\x00"), nil
}
