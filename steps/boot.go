package steps

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// BootPlan is the part of a node's steps that its service runs again when the machine has booted and, with a Guard,
// whenever they are not in order, as a file on the machine holds it. It holds no secrets.
type BootPlan struct {
	Version int    `json:"version"` // bootVersion
	Node    string `json:"node"`
	Steps   []Spec `json:"steps"`
	Guard   *Guard `json:"guard,omitempty"` // nil: after a boot only
	// Tokens are the steps of the node's own tokens. The service renews these in any case: they end within a day.
	Tokens []Spec `json:"tokens,omitempty"`
	// Follow is what the service starts regularly; nil = nothing.
	Follow *Follow `json:"follow,omitempty"`
}

// Follow is a run of 'nodejoin follow', by which a node applies new releases of its plan.
type Follow struct {
	Program  string        `json:"program"` // nodejoin
	File     string        `json:"file"`    // its argument
	Log      string        `json:"log"`     // file with its output
	Interval time.Duration `json:"interval"`
}

const bootVersion = 2

// BootCommand is the Command of the LockHolder that runs a BootPlan.
const BootCommand = "boot"

// How a reference stands in JSON, and one that is to be filled by the run after the boot.
var bootRef = regexp.MustCompile(`\\u0000([^\\]*)\\u0000`)

const lateMark = `\u0001`

// Text is the file of the BootPlan. Its references are those of the step that
// writes it, which must have values without quotes and backslashes; but for outputs of
// its own steps: these are filled after the boot.
func (p BootPlan) Text() string {
	p.Version = bootVersion
	p.Steps, p.Tokens = unlinked(p.Steps), unlinked(p.Tokens)
	b, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		panic(fmt.Sprintf("steps: boot plan of %q: %v", p.Node, err)) // the specs came out of JSON
	}
	return bootRef.ReplaceAllStringFunc(string(b), func(m string) string {
		name := bootRef.FindStringSubmatch(m)[1]
		step, _, _ := strings.Cut(name, ".")
		if slices.ContainsFunc(p.Steps, func(s Spec) bool { return s.ID == step }) {
			return lateMark + name + lateMark
		}
		return Ref(name)
	}) + "\n"
}

// unlinked are the steps without what only a plan needs.
func unlinked(list []Spec) (out []Spec) {
	for _, s := range list {
		s.After, s.Source, s.OnlyIf = nil, "", ""
		out = append(out, s)
	}
	return out
}

// ReadBoot reads what Text wrote. Steps of the cluster are refused: the machine
// has no way there.
func ReadBoot(b []byte, kinds Catalog) (BootPlan, error) {
	var p BootPlan
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(b), lateMark, `\u0000`)), &p); err != nil {
		return p, fmt.Errorf("boot plan: %w", err)
	}
	if p.Version != bootVersion {
		return p, fmt.Errorf("boot plan: version %d, this nodejoin knows %d", p.Version, bootVersion)
	}
	if p.Follow != nil && p.Follow.Interval <= 0 {
		return p, fmt.Errorf("boot plan: it follows a plan every %v", p.Follow.Interval)
	}
	for _, s := range slices.Concat(p.Steps, p.Tokens) {
		if k, ok := kinds.Lookup(s.Kind); !ok || k.Place != OnHost {
			return p, fmt.Errorf("boot plan: step %s is of kind %q, which does not run on a machine", s.ID, s.Kind)
		}
	}
	return p, nil
}
