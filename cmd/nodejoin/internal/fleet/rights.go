package fleet

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nodejoin/plan"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

const rbac = "rbac.authorization.k8s.io"

// Rule is a rule of a ClusterRole.
type Rule struct {
	Groups, Resources, Names, URLs, Verbs []string
}

// reads are the rights to what doctor looks at in the whole cluster.
var reads = []Rule{
	{Groups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list"}},
	{Groups: []string{""}, Resources: []string{"services", "events"}, Verbs: []string{"list"}},
	{Groups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list"}},
	{Groups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"list"}},
	{Groups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"},
		Verbs: []string{"get", "list"}},
}

// verifies are the rights that verify needs besides: it makes a namespace of its own, whose name is not known before,
// so that they are for all namespaces.
var verifies = []Rule{
	{Groups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"create", "delete"}},
	{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "delete"}},
	{Groups: []string{""}, Resources: []string{"pods/exec", "pods/portforward"}, Verbs: []string{"create", "get"}},
	{Groups: []string{""}, Resources: []string{"pods/log", "nodes/proxy"}, Verbs: []string{"get"}},
	{Groups: []string{""}, Resources: []string{"services"}, Verbs: []string{"create"}},
	{Groups: []string{""}, Resources: []string{"serviceaccounts"}, Names: []string{"default"}, Verbs: []string{"get"}},
}

// leaves are the rights that leave needs besides, but for those to delete Nodes.
var leaves = []Rule{
	{Groups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}},
	{Groups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
}

// everyRun are the rights that an apply of any plan needs in the whole cluster.
var everyRun = []Rule{
	{Groups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "patch", "watch"}},
	{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
	{Groups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
	{Groups: []string{""}, Resources: []string{"services", "events"}, Verbs: []string{"list"}},
	{Groups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list"}},
	{Groups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"list"}},
	{Groups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"},
		Verbs: []string{"get", "list"}},
	{Groups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests/approval"},
		Verbs: []string{"update"}},
	{Groups: []string{"certificates.k8s.io"}, Resources: []string{"signers"},
		Names: []string{"kubernetes.io/kubelet-serving"}, Verbs: []string{"approve"}},
}

// rules are the rights that a command over the plan needs in the whole cluster. A right to create cannot be limited to
// names (Kubernetes documentation, "Using RBAC Authorization", "Referring to resources").
func rules(p *plan.Compiled, command string) []Rule {
	r, seen := rights{named: map[right][]string{}}, map[string]bool{}
	switch command {
	case "doctor":
		return reads
	case "verify":
		return slices.Concat(reads, verifies)
	case "leave":
		r.deletedNodes(p)
		return slices.Concat(reads, leaves, r.list())
	}
	for _, n := range p.Nodes {
		for _, own := range ownAccounts(n, n.Name) {
			r.ownAccount(own)
		}
		for _, s := range n.Steps {
			if t, ok := kinds.As[kinds.ServiceAccountToken](s); ok {
				r.token(*t, n.Name)
			}
			if s.Kind != "service_account" && s.Kind != "manifest" || seen[s.Kind+string(s.Args.JSON())] {
				continue
			}
			seen[s.Kind+string(s.Args.JSON())] = true
			if a, ok := kinds.As[kinds.ServiceAccount](s); ok {
				r.account(*a)
			}
			if m, ok := kinds.As[kinds.Manifest](s); ok {
				list, err := m.Objects()
				if err != nil {
					continue // the run says so
				}
				for _, o := range list {
					r.object(o)
				}
			}
		}
	}
	restores := func(n plan.Node) bool { return n.OnFailure == "rollback" } // a first join, too
	if len(p.Moved) > 0 || slices.ContainsFunc(p.Nodes, restores) {
		r.deletedNodes(p)
	}
	return append(slices.Clone(everyRun), r.list()...)
}

// rights are those to objects with names, and those that are passed on: who writes a role must have what it gives, and
// escalate is not among the rights, because with it a pod could give itself any other.
type rights struct {
	named map[right][]string // names; "" = all of the resource
	held  []Rule
}

// right is what is the same for several names.
type right struct{ group, resource, verbs string }

// add gives verbs, which are sorted, for an object, or with "" for all of a resource.
func (r *rights) add(group, resource, name string, verbs ...string) {
	k := right{group, resource, strings.Join(verbs, ",")}
	r.named[k] = append(r.named[k], name)
}

// deletedNodes is for Nodes that a run deletes, with the Secrets that their tokens are bound to, and the accounts and
// roles that such a Node has for itself.
func (r *rights) deletedNodes(p *plan.Compiled) {
	r.add("", "nodes", "", "delete")
	r.add("", "secrets", "", "delete", "list")
	r.add("", "serviceaccounts", "", "list")
	r.add(rbac, "clusterroles", "", "list")
	r.add(rbac, "clusterrolebindings", "", "list")
	for _, n := range p.Nodes {
		r.endsWith(n.Name, ownAccounts(n, n.Name))
		for from, to := range p.Moved {
			if to == n.Name {
				r.endsWith(from, ownAccounts(n, from))
			}
		}
	}
}

// endsWith is for what a Node has for itself.
func (r *rights) endsWith(node string, accounts []kube.ServiceAccount) {
	for _, own := range append(accounts, kube.FirstBoot(node)) {
		r.add("", "serviceaccounts", own.Name, "delete")
		r.add(rbac, "clusterrolebindings", own.Binding(), "delete")
		if strings.HasSuffix(own.ClusterRole, ":"+node) { // else it is not made for the Node
			r.add(rbac, "clusterroles", own.ClusterRole, "delete")
		}
	}
}

// ownAccounts are the accounts that a node has for itself under a name, where the plan reckons with API servers that
// cannot limit shared ones.
func ownAccounts(n plan.Node, name string) (out []kube.ServiceAccount) {
	for _, s := range n.Steps {
		if a, ok := kinds.As[kinds.ServiceAccount](s); ok && a.OwnNode && a.Node != "" {
			a.Node = name
			out = append(out, a.Account().OfNode())
		}
	}
	return out
}

// token is for a token of a ServiceAccount. Whether the node has an account of its own is asked first.
func (r *rights) token(t kinds.ServiceAccountToken, node string) {
	r.add("", "serviceaccounts/token", t.Name, "create")
	if !t.Unbound {
		r.add("", "serviceaccounts", kube.AccountOf(t.Name, node), "get")
	}
}

// ownAccount is for an account of one Node, which becomes the owner of it.
func (r *rights) ownAccount(a kube.ServiceAccount) {
	r.add("", "serviceaccounts", a.Name, "get", "patch")
	r.add("", "serviceaccounts/token", a.Name, "create")
	r.add("", "serviceaccounts", "", "list")
	r.add(rbac, "clusterroles", a.ClusterRole, "bind", "get")
	r.add(rbac, "clusterroles", "", "list")
	if len(a.Rules) > 0 {
		r.add(rbac, "clusterroles", a.ClusterRole, "patch", "update")
	}
	r.add(rbac, "clusterrolebindings", a.Binding(), "get", "patch", "update")
	r.add(rbac, "clusterrolebindings", "", "list")
}

// account is for the ServiceAccount of a program on nodes, and its role.
func (r *rights) account(a kinds.ServiceAccount) {
	r.add("", "serviceaccounts", "", "create")
	r.add("", "serviceaccounts", a.Name, "get")
	r.add("", "namespaces", "", "create")
	r.add(rbac, "clusterroles", a.ClusterRole, "bind", "get")
	if len(a.Rules) > 0 {
		r.add(rbac, "clusterroles", "", "create")
		r.add(rbac, "clusterroles", a.ClusterRole, "update")
	}
	for _, held := range a.Rules {
		r.held = append(r.held, Rule{Groups: held.APIGroups, Resources: held.Resources,
			Names: held.ResourceNames, Verbs: held.Verbs})
	}
	r.add(rbac, "clusterrolebindings", "", "create")
	r.add(rbac, "clusterrolebindings", a.Account().Binding(), "get", "update")
	if a.OwnNode {
		for _, m := range kube.OwnNode(a.Namespace, a.Name) {
			r.object(m)
		}
	}
}

// object is for an object that the plan applies.
func (r *rights) object(m kube.Manifest) {
	gvk := schema.FromAPIVersionAndKind(m.APIVersion, m.Kind)
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	r.add(gvk.Group, plural.Resource, "", "create")
	r.add(gvk.Group, plural.Resource, m.Name, "get", "patch")
	if gvk.Group != rbac {
		return
	}
	given, _ := m.Object["rules"].([]any)
	for _, g := range given {
		g, _ := g.(map[string]any)
		r.held = append(r.held, Rule{Groups: words(g["apiGroups"]), Resources: words(g["resources"]),
			Names: words(g["resourceNames"]), URLs: words(g["nonResourceURLs"]), Verbs: words(g["verbs"])})
	}
	if to := field(m.Object, "roleRef"); len(to) > 0 {
		kind, _ := to["kind"].(string)
		name, _ := to["name"].(string)
		r.add(gvk.Group, strings.ToLower(kind)+"s", name, "bind")
	}
}

// words are the strings of a list of JSON.
func words(v any) (out []string) {
	list, _ := v.([]any)
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// list is sorted.
func (r *rights) list() (out []Rule) {
	for k, names := range r.named {
		slices.Sort(names)
		if names = slices.Compact(names); names[0] == "" {
			names = nil
		}
		out = append(out, Rule{Groups: []string{k.group}, Resources: []string{k.resource}, Names: names,
			Verbs: strings.Split(k.verbs, ",")})
	}
	out = append(out, r.held...)
	slices.SortFunc(out, func(a, b Rule) int {
		return cmp.Or(slices.Compare(a.Groups, b.Groups), slices.Compare(a.Resources, b.Resources),
			slices.Compare(a.Names, b.Names), slices.Compare(a.URLs, b.URLs), slices.Compare(a.Verbs, b.Verbs))
	})
	return slices.CompactFunc(out, func(a, b Rule) bool { return a.String() == b.String() })
}

// String is the rule as YAML in a line.
func (r Rule) String() string {
	out := "{"
	for _, part := range []struct {
		name string
		of   []string
	}{{"apiGroups", r.Groups}, {"resources", r.Resources}, {"resourceNames", r.Names}, {"nonResourceURLs", r.URLs}} {
		if len(part.of) > 0 {
			out += part.name + ": " + list(part.of) + ", "
		}
	}
	return out + "verbs: " + list(r.Verbs) + "}"
}
