package jsonout

import (
	"github.com/hashicorp/hcl/v2"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
)

// Validate is the JSON output of validate (examples/schema/validate.schema.json).
type Validate struct {
	FormatVersion string       `json:"format_version"`
	Valid         bool         `json:"valid"`
	Errors        int          `json:"error_count"`
	Warnings      int          `json:"warning_count"`
	Diagnostics   []ui.Problem `json:"diagnostics"`
	// Unvalued are the variables without a value; what depends on them was not judged.
	Unvalued []string `json:"variables_without_value,omitempty"`
	// Unread is the data that was not read; what depends on it was not judged.
	Unread []string `json:"data_not_read,omitempty"`
}

// OfDiagnostics is the result of validate; compiled is nil for a plan that does not compile.
func OfDiagnostics(compiled *plan.Compiled, diags hcl.Diagnostics) Validate {
	ps := ui.FromHCL(diags)
	out := Validate{FormatVersion: "1", Valid: !diags.HasErrors(), Diagnostics: append([]ui.Problem{}, ps...)}
	if compiled != nil {
		out.Unvalued, out.Unread = compiled.Unvalued, compiled.Unread
	}
	for _, p := range ps {
		if p.Warning {
			out.Warnings++
		} else {
			out.Errors++
		}
	}
	return out
}
