package recipe

import (
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// nodeSteps adds the file of what nodejoin-node does on the machine, and returns its path. It comes after the steps
// that the service repeats, so that the service finds nothing to do when it first starts. logs is the folder of its
// logs.
func (b *build) nodeSteps(logs string) string {
	file := host.Join(b.in.OS, b.data(), "node.json")
	plan := steps.BootPlan{Node: b.in.Node, Steps: b.bootPart(), Guard: b.guard(), Tokens: b.tokenSteps(),
		Follow: b.follows(host.Join(b.in.OS, logs, "follow.log"))}
	after := slices.Concat([]string{"data_dir"}, b.metricsFiles(), b.follow())
	for _, s := range plan.Steps {
		after = append(after, s.ID)
	}
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
