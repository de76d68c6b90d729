package jsonout

import (
	"encoding/json"

	"nodejoin/plan/block"
)

// Outputs is the JSON output of output (examples/schema/output.schema.json).
type Outputs struct {
	FormatVersion string            `json:"format_version"`
	Outputs       map[string]output `json:"outputs"`
}

type output struct {
	Description string `json:"description,omitempty"`
	Sensitive   bool   `json:"sensitive"`
	// Value is absent for a sensitive output.
	Value json.RawMessage `json:"value,omitempty"`
}

// OfOutputs are the outputs of a plan.
func OfOutputs(list []block.Output) Outputs {
	out := Outputs{FormatVersion: "1", Outputs: map[string]output{}}
	for _, o := range list {
		out.Outputs[o.Name] = output{o.Description, o.Sensitive, o.Value}
	}
	return out
}
