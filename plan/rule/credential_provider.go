package rule

import (
	"maps"
	"slices"
	"strings"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
)

// credentialProviders reports credential_provider blocks that the kubelet of a node does not take.
func credentialProviders(p *block.Plan, m *block.Machine) {
	first := map[string]string{} // program -> name of the block
	for _, key := range slices.Sorted(maps.Keys(m.Said)) {
		name, is := strings.CutPrefix(key, "credential_provider ")
		b := m.Said[key]
		if !is || reported(p, b.At) {
			continue
		}
		if len(p.Written["cluster"]) == 0 {
			p.FailOn(m.Name, b.At, "block without effect", "Node %q joins no cluster, so it has no kubelet that asks for "+
				"credentials. Remove it.", m.Name)
			continue
		}
		if p.Cluster == nil {
			continue // reported
		}
		if v, err := compat.Kubelet(p.Cluster.Version); err == nil && v.CredentialProviders == "" {
			p.FailOn(m.Name, b.At, "version not supported", "The kubelet of Kubernetes %s asks no program for credentials "+
				"unless an alpha feature is on. Use Kubernetes 1.24 or newer, or imagePullSecrets.", p.Cluster.Version)
			continue
		}
		program := recipe.ProviderProgram(name, b.Text("program"))
		if other, taken := first[program]; taken {
			p.FailOn(m.Name, b.At, "two providers with one program", "The blocks %q and %q both have the program %q, and "+
				"the kubelet tells providers apart by it. Give one another name: program = \"...\".", other, name, program)
			continue
		}
		first[program] = name
		for _, a := range m.Components["kubelet"].Args {
			if flag := host.FlagName(a); strings.HasPrefix(flag, "image-credential-provider-") {
				p.FailOn(m.Name, b.At, "flag that nodejoin sets", "The kubelet block of node %q has the flag --%s in "+
					"extra_args, and this block sets it. Remove one of the two.", m.Name, flag)
				break
			}
		}
	}
}
