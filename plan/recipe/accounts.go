package recipe

import (
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// Accounts of the components that have no credentials of their own. flannel's own account is left alone: on a
// Linux cluster its manifest owns it.
var (
	flannelAccount = kinds.ServiceAccount{Namespace: "kube-system", Name: "nodejoin-flannel",
		ClusterRole: "nodejoin:flannel",
		Rules: []kube.Rule{ // flannel Documentation/kube-flannel.yml
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		}, OwnNode: true}
	kubeProxyAccount = kinds.ServiceAccount{Namespace: "kube-system", Name: "nodejoin-kube-proxy",
		ClusterRole: "system:node-proxier", OwnNode: true}
	nodeAccount = kinds.ServiceAccount{Namespace: "kube-system", Name: nodeService, ClusterRole: "nodejoin:node",
		Rules: []kube.Rule{ // a condition of its Node, and events about it
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
		}, OwnNode: true}
	// followAccount is what an apply of a node by itself asks of the cluster.
	followAccount = kinds.ServiceAccount{Namespace: "kube-system", Name: "nodejoin-follow",
		ClusterRole: "nodejoin:follow", Rules: []kube.Rule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
				Verbs: []string{"get", "list", "create", "update", "delete"}},
			{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"},
				Verbs: []string{"get", "list"}},
			{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles", "clusterrolebindings"},
				Verbs: []string{"get"}},
		}, OwnNode: true}
)

// tokenLife is the life of a token that nodejoin-node renews in its last third. One that is bound to a Secret is not
// renewed on the node, and lives as long as the kind's default.
const tokenLife = "24h"

// component is a program of the node that uses the cluster with a service account.
type component struct {
	id, program, kubeconfig string
	account                 kinds.ServiceAccount
}

// components of this node, in the order of their steps.
func (b *build) components() (out []component) {
	flannel, proxy := b.in.Network.Kind == "flannel", b.kubeProxy()
	flannelFile, proxyFile, nodeFile := flannelConf, kubeProxyConf, winNodeKube
	if b.in.OS == "linux" {
		flannel, proxy = b.flannel(), b.proxy()
		flannelFile, proxyFile, nodeFile = linFlannelKube, linProxyKube, linNodeKube
	}
	if flannel {
		out = append(out, component{"flannel", "flanneld", flannelFile, flannelAccount})
	}
	if proxy {
		out = append(out, component{"kube_proxy", "kube-proxy", proxyFile, kubeProxyAccount})
	}
	if !b.in.Settings.Guard.Off {
		out = append(out, component{guardID, nodeService, nodeFile, nodeAccount})
	}
	if f := b.in.Settings.Follow; f != nil {
		out = append(out, component{"follow", "nodejoin-follow", b.followKube(), accountOf(f)})
	}
	return out
}

// accountOf is followAccount, or another one with more rights: nodes that have and have not share a cluster.
func accountOf(f *Follow) kinds.ServiceAccount {
	a := followAccount
	if f.Evict {
		a.Name, a.ClusterRole = a.Name+"-evict", a.ClusterRole+"-evict"
		a.Rules = append(slices.Clone(a.Rules),
			kube.Rule{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}})
	}
	return a
}

// accounts adds the accounts of the components.
func (b *build) accounts() {
	for _, c := range b.components() {
		if len(c.account.Rules) > 0 && !b.kubernetes.TokensOfNodes {
			c.account.Node = b.in.Node // it may change Nodes
		}
		b.add(c.id+"_account", "service_account", "Account of "+c.program, &c.account, "require")
	}
}

// tokens adds the tokens of the components, which end with the Node, and their kubeconfigs. A token is minted only
// if its file has to be written. The kubeconfigs name the files, which client-go reads again every minute
// (k8s.io/client-go transport/token_source.go), so that a renewed token restarts nothing.
func (b *build) tokens() {
	for _, c := range b.components() {
		b.add(c.id+"_token", "service_account_token", "Token of "+c.program,
			&kinds.ServiceAccountToken{Namespace: c.account.Namespace, Name: c.account.Name, NodeTTL: tokenLife},
			c.id+"_account", "registered").OnlyIf = c.id + "_token_file"
	}
	for _, c := range b.components() {
		file := tokenFileOf(c.kubeconfig)
		b.add(c.id+"_token_file", "token_file", "Token file of "+c.program, &kinds.TokenFile{Path: file,
			Token: steps.Ref(c.id + "_token.token"), Account: c.account.Namespace + "/" + c.account.Name,
			NodeUID: steps.Ref("registered.uid"), Kubeconfig: c.kubeconfig}, c.id+"_token", "kubernetes_dir")
		b.add(c.id+"_kubeconfig", "kubeconfig", "Kubeconfig of "+c.program, &kinds.Kubeconfig{Path: c.kubeconfig,
			Server: b.in.APIServer, CA: steps.Ref("cluster.ca"), User: c.program, TokenFile: file}, c.id+"_token_file")
	}
}

// tokenFileOf is the file of the token beside a kubeconfig.
func tokenFileOf(kubeconfig string) string {
	return kubeconfig[:len(kubeconfig)-len(".conf")] + ".token"
}
