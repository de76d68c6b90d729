package plan

import (
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
)

// settings converts the blocks of settings of a machine, which the rules have accepted, into
// the recipe's input. A block of a profile may still have values that were reported; they are
// left out.
type settings struct {
	recipe.Settings
	m       *block.Machine
	cluster *block.ClusterBlocks   // nil = none
	place   func(hcl.Range) string // as steps have it
	at      map[string]hcl.Range   // where the setting stands that a step comes from
}

// add adds steps that an argument asks for.
func (w *settings) add(at hcl.Range, list ...recipe.Setting) {
	for _, s := range list {
		s.Source = w.place(at)
		w.Steps = append(w.Steps, s)
		w.at[s.ID] = at
	}
}

// open adds a rule of the firewall.
func (w *settings) open(r recipe.FirewallRule, at hcl.Range) {
	r.Ports, r.Source = strings.ReplaceAll(r.Ports, " ", ""), w.place(at)
	w.Firewall.Rules = append(w.Firewall.Rules, r)
	w.at[recipe.FirewallID(r.Name)] = at
}
