package steps

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// BootPlan is the part of a node's steps that its service runs again when the machine has booted and, with a Guard,
// whenever they are not in order, as a file on the machine holds it. It holds no secrets.
type BootPlan struct {
	Version int    `json:"version"` // bootVersion
	Node    string `json:"node"`
	Steps   []Spec `json:"steps"`
	Guard   *Guard `json:"guard,omitempty"` // nil: after a boot only
}

const bootVersion = 2

// BootCommand is the Command of the LockHolder that runs a BootPlan.
const BootCommand = "boot"

// How a reference stands in JSON, and one that is to be filled by the run after the boot.
var bootRef = regexp.MustCompile(`\\u0000([^\\]*)\\u0000`)

const lateMark = `\u0001`

// BootText is the file of a BootPlan. Its references are those of the step that
// writes it, which must have values without quotes and backslashes; but for outputs of
// specs themselves: these are filled after the boot.
func BootText(node string, specs []Spec, guard *Guard) string {
	p := BootPlan{Version: bootVersion, Node: node, Guard: guard}
	for _, s := range specs {
		s.After, s.Source = nil, ""
		p.Steps = append(p.Steps, s)
	}
	b, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		panic(fmt.Sprintf("steps: boot plan of %q: %v", node, err)) // the specs came out of JSON
	}
	return bootRef.ReplaceAllStringFunc(string(b), func(m string) string {
		name := bootRef.FindStringSubmatch(m)[1]
		step, _, _ := strings.Cut(name, ".")
		if slices.ContainsFunc(specs, func(s Spec) bool { return s.ID == step }) {
			return lateMark + name + lateMark
		}
		return Ref(name)
	}) + "\n"
}

// ReadBoot reads what BootText wrote. Steps of the cluster are refused: the machine
// has no way there.
func ReadBoot(b []byte, kinds Catalog) (BootPlan, error) {
	var p BootPlan
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(b), lateMark, `\u0000`)), &p); err != nil {
		return p, fmt.Errorf("boot plan: %w", err)
	}
	if p.Version != bootVersion {
		return p, fmt.Errorf("boot plan: version %d, this nodejoin knows %d", p.Version, bootVersion)
	}
	for _, s := range p.Steps {
		if k, ok := kinds.Lookup(s.Kind); !ok || k.Place != OnHost {
			return p, fmt.Errorf("boot plan: step %s is of kind %q, which does not run on a machine", s.ID, s.Kind)
		}
	}
	return p, nil
}
