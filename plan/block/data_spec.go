package block

import (
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
)

var sensitiveData = eval.Attr{Name: "sensitive", Typ: cty.Bool, Doc: "true: the value is never shown, in no output " +
	"and no record, and neither is a digest of it; default false"}

// dataSpecs are the sources of data. Each gives data.KIND.NAME.value.
var dataSpecs = map[string]*eval.Spec{
	"exec": {Name: "data", Doc: "what a program prints as JSON is data.exec.NAME.value. It runs on the controller, " +
		"without a shell and without a terminal, whenever the plan is compiled, except by `validate`, in the plan's " +
		"folder and the environment of nodejoin. Its value is at most 8 MiB. `--untrusted` refuses it", Attrs: []eval.Attr{
		{Name: "program", Typ: eval.Strings, Required: true, Doc: "the program and its arguments; a name without a slash " +
			"is looked for in PATH, a relative path begins at the plan's folder"},
		{Name: "env", Typ: eval.StrMap, Secret: true, Doc: "variables added to its environment; they may be sensitive"},
		{Name: "timeout", Typ: cty.String, Doc: "how long it may run, from 1s to 5m; default \"30s\""},
		sensitiveData,
	}},
	"file": {Name: "data", Doc: "what a file on the controller holds is data.file.NAME.value: a list of objects for " +
		"CSV, whose first line has their names. The file has at most 8 MiB. `validate` needs no such file",
		Attrs: []eval.Attr{
			{Name: "path", Typ: cty.String, Required: true, Doc: "the file; a relative path begins at the plan's folder"},
			{Name: "format", Typ: cty.String, Doc: "\"json\", \"yaml\" or \"csv\"; default by the end of the name"},
			sensitiveData,
		}},
}
