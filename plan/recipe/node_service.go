package recipe

import (
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// nodeSteps adds the file of what nodejoin-node does on the machine, with the steps of the tokens, and returns its
// path.
func (b *build) nodeSteps(plan steps.BootPlan, after ...string) string {
	file := host.Join(b.in.OS, b.data(), "node.json")
	plan.Node, plan.Tokens = b.in.Node, b.tokenSteps()
	for _, c := range b.components() {
		after = append(after, c.id+"_kubeconfig")
	}
	b.add("node_steps", "file", "Steps that the node repeats by itself",
		&kinds.File{Path: file, Access: host.AccessPrivate, Content: plan.Text()}, after...)
	return file
}

// tokenSteps returns the steps of the token files as the service runs them: each token renews itself.
func (b *build) tokenSteps() []steps.Spec {
	var out []steps.Spec
	for _, s := range b.specs {
		if t, ok := kinds.As[kinds.TokenFile](s); ok {
			t.Token = ""
			s.Args = steps.MustArgs(t)
			out = append(out, s)
		}
	}
	return out
}
