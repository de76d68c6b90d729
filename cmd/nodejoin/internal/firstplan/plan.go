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
		"digest": func(f Artifact) string {
			if d := a.Digests[f]; d != "" {
				return `"` + d + `"`
			}
			return "var.sha256." + f.OS + "." + f.Name
		},
		"url": func(f Artifact) string {
			_, address := a.upstream(f)
			return address
		},
		// versioned reports whether the plan must name the version of an artifact itself.
		"versioned": func(f Artifact) bool {
			return f.Name == compat.CNIPlugins || a.Mirror == "" && (f.Name == compat.FlannelCNI || f.Name == compat.Runc)
		},
		"version": a.version,
		"user":    func(os string) string { return map[string]string{"windows": a.User, "linux": a.LinuxUser}[os] },
	}).Parse(planTemplate))
	var b bytes.Buffer
	data := struct {
		*Answers
		Folder    string
		Artifacts []Artifact
		Mixed     bool
	}{a, comment(folder), a.artifacts(), len(a.Systems()) > 1}
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
func (a *Answers) AnyDigests() string {
	var b strings.Builder
	for _, os := range a.Systems() {
		fmt.Fprintf(&b, "%s = {", os)
		for _, f := range a.artifacts() {
			if f.OS == os {
				fmt.Fprintf(&b, " %s = %q,", f.Name, strings.Repeat("0", 64))
			}
		}
		b.WriteString(" },")
	}
	return "{ " + b.String() + " }"
}
