package kube

// OwnNode are the objects that limit an account to the Node that its token is bound to: it changes only that Node, and
// requests tokens only of itself that are bound to that Node; its events are about that Node, and its Leases are those
// of nodejoin. They work where the API server knows the Node of a token (Kubernetes 1.31 and newer;
// ValidatingAdmissionPolicy is older).
func OwnNode(namespace, account string) []Manifest {
	const rbac = "rbac.authorization.k8s.io"
	role := "nodejoin:own-token:" + account
	user := "system:serviceaccount:" + namespace + ":" + account
	extra := func(key string) string {
		return `request.userInfo.extra[?"authentication.kubernetes.io/` + key + `"][?0].orValue("")`
	}
	return append(policy("nodejoin-own-node."+namespace+"."+account, map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{
			requests("", []any{"CREATE", "UPDATE", "DELETE"}, []any{"nodes", "nodes/status"}),
			requests("", []any{"CREATE"}, []any{"serviceaccounts/token"}),
			requests("", []any{"CREATE", "UPDATE"}, []any{"events"}),
			requests("coordination.k8s.io", []any{"CREATE", "UPDATE", "DELETE"}, []any{"leases"})}},
		"matchConditions": []any{named("account", `request.userInfo.username == "`+user+`"`)},
		"variables": []any{named("node", extra("node-name")), named("uid", extra("node-uid")),
			named("asksToken", `request.resource.resource == "serviceaccounts"`),
			named("isEvent", `request.resource.resource == "events"`),
			named("isLease", `request.resource.resource == "leases"`)},
		"validations": []any{
			forbids("the token is not bound to a Node", `variables.node != "" && variables.uid != ""`),
			forbids("the token is bound to another Node", `variables.asksToken || variables.isEvent || `+
				`variables.isLease || request.name == variables.node`),
			forbids("the account changes only the Leases of nodejoin", `!variables.isLease || `+
				`request.namespace == "kube-system" && request.name.startsWith("nodejoin-")`),
			forbids("an event of the account is about the Node that its token is bound to", `!variables.isEvent || `+
				`object.involvedObject.kind == "Node" && object.involvedObject.name == variables.node`),
			forbids("the account requests tokens only of itself", `!variables.asksToken || `+
				`request.namespace == "`+namespace+`" && request.name == "`+account+`"`),
			forbids("a token is renewed only for the Node that it is bound to", `!variables.asksToken || `+
				`object.spec.?boundObjectRef.?kind.orValue("") == "Node" && `+
				`object.spec.boundObjectRef.?name.orValue("") == variables.node && `+
				`object.spec.boundObjectRef.?uid.orValue("") == variables.uid`),
		}}),
		managed(rbac+"/v1", "Role", namespace, role, map[string]any{"rules": []any{map[string]any{
			"apiGroups": []any{""}, "resources": []any{"serviceaccounts/token"}, "resourceNames": []any{account},
			"verbs": []any{"create"}}}}),
		managed(rbac+"/v1", "RoleBinding", namespace, role, map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbac, "kind": "Role", "name": role},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": account, "namespace": namespace}}}))
}
