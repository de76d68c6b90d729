package firstplan

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
)

//go:embed plan.tmpl
var planTemplate string

// Plan returns the text of the plan, not yet formatted. folder is where it will be.
func (a *Answers) Plan(folder string) ([]byte, error) {
	if err := a.locate(folder); err != nil {
		return nil, err
	}
	if err := a.readDigests(); err != nil {
		return nil, err
	}
	return a.text(folder), nil
}

func (a *Answers) text(folder string) []byte {
	t := template.Must(template.New("plan").Funcs(template.FuncMap{
		"hcl": func(s string) string { return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()) },
		"digest": func(name string) string {
			if d := a.Digests[name]; d != "" {
				return `"` + d + `"`
			}
			return `var.sha256["` + name + `"]`
		},
		"url": func(name string) string {
			_, address := compat.Artifact(name, a.version(name), "windows", "amd64")
			return address
		},
		"artifacts": func() []string { return artifacts },
	}).Parse(planTemplate))
	var b bytes.Buffer
	data := struct {
		Answers
		Folder string
	}{*a, comment(folder)}
	if err := t.Execute(&b, data); err != nil {
		panic(fmt.Sprintf("firstplan: %v", err)) // a bug in the template
	}
	return b.Bytes()
}

// comment keeps s on one line.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, s)
}

// AnyDigests returns a value of the variable sha256 for a plan that is only compiled.
func AnyDigests() string {
	var parts []string
	for _, name := range artifacts {
		parts = append(parts, name+` = "`+strings.Repeat("0", 64)+`"`)
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
