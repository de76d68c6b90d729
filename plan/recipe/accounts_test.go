package recipe

import (
	"slices"
	"testing"

	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// TestAccountsOfOldServers: a node whose API server may not know the Node of a token names itself in the accounts that
// may change Nodes, and no other. What such an account changes is the Node, and events, which have no names.
func TestAccountsOfOldServers(t *testing.T) {
	for _, c := range []struct{ version, want string }{{"1.30.4", "win-1"}, {"1.32.8", "win-1"}, {"1.33.0", ""}} {
		in := input()
		in.Kubernetes = c.version
		specs, err := Expand(in)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, s := range specs {
			a, ok := kinds.As[kinds.ServiceAccount](s)
			if !ok {
				continue
			}
			seen++
			if want := map[bool]string{true: c.want}[s.ID != "kube_proxy_account"]; a.Node != want {
				t.Errorf("%s: %s is of the Node %q, want %q", c.version, s.ID, a.Node, want)
			}
			own := kube.ServiceAccount{Name: a.Name, ClusterRole: a.ClusterRole, Rules: a.Rules, Node: "win-1"}.OfNode()
			for _, r := range own.Rules {
				for _, verb := range r.Verbs {
					if verb != "get" && verb != "list" && verb != "watch" && len(r.ResourceNames) == 0 &&
						!slices.Equal(r.Resources, []string{"events"}) {
						t.Errorf("%s: the account of one Node may %s all %v", c.version, verb, r.Resources)
					}
				}
			}
		}
		if seen != 3 {
			t.Errorf("%s: %d accounts", c.version, seen)
		}
	}
}
