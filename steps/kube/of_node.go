package kube

import (
	"slices"
	"strings"
)

// OfNode is the account of the Node alone, with a role of its own that names the Node wherever it allows to change
// Nodes. A role that nodejoin does not create stays as it is.
func (a ServiceAccount) OfNode() ServiceAccount {
	own := ServiceAccount{Namespace: a.Namespace, Name: AccountOf(a.Name, a.Node), ClusterRole: a.ClusterRole,
		Node: a.Node}
	if len(a.Rules) == 0 {
		return own
	}
	own.ClusterRole += ":" + a.Node
	for _, r := range a.Rules {
		own.Rules = append(own.Rules, r.ofNode(a.Node)...)
	}
	return own
}

// Binding is the name of the account's ClusterRoleBinding. It includes the role's name, since a binding's role cannot
// be changed.
func (a ServiceAccount) Binding() string {
	return strings.Join([]string{"nodejoin", a.Namespace, a.Name, a.ClusterRole}, ":")
}

// ofNode is the rule with what it allows to change of Nodes limited to one of them. Reading stays as it is: a list
// and a watch name no object.
func (r Rule) ofNode(node string) (out []Rule) {
	add := func(resources, names []string, verbs []string) {
		if len(resources) > 0 && len(verbs) > 0 {
			out = append(out, Rule{APIGroups: r.APIGroups, Resources: resources, ResourceNames: names, Verbs: verbs})
		}
	}
	nodes, others := split(r.Resources, func(s string) bool { return s == "nodes" || strings.HasPrefix(s, "nodes/") })
	reads, changes := split(r.Verbs, func(s string) bool { return s == "get" || s == "list" || s == "watch" })
	add(others, r.ResourceNames, r.Verbs)
	add(nodes, r.ResourceNames, reads)
	add(nodes, []string{node}, changes)
	return out
}

func split(list []string, first func(string) bool) (yes, no []string) {
	no = slices.DeleteFunc(slices.Clone(list), first)
	yes = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !first(s) })
	return yes, no
}
