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
	if err := a.inFolder(); err != nil {
		return nil, err
	}
	return a.text(folder), nil
}

func (a *Answers) text(folder string) []byte {
	t := template.Must(template.New("plan").Funcs(template.FuncMap{
		"hcl":     func(s string) string { return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()) },
		"version": a.version,
		"user":    func(os string) string { return map[string]string{"windows": a.User, "linux": a.LinuxUser}[os] },
	}).Parse(planTemplate))
	var b bytes.Buffer
	data := struct {
		*Answers
		Folder    string
		Artifacts []string // that must name their version
		Mixed     bool
	}{a, comment(folder), a.versioned(), len(a.Systems()) > 1}
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

// versioned are the artifacts whose version the plan must name itself.
func (a *Answers) versioned() []string {
	names := []string{compat.CNIPlugins}
	if a.Mirror == "" {
		names = append(names, compat.FlannelCNI)
		if len(a.HostsOf("linux")) > 0 {
			names = append(names, compat.Runc)
		}
	}
	return names
}
