package kube

// OwnNode are the objects that limit an account to the Node that its token is bound to: it changes only that Node, and
// requests tokens only of itself that are bound to that Node; its events are about that Node, and its Leases are those
// of nodejoin. They work where the API server knows the Node of a token (Kubernetes 1.31 and newer;
// ValidatingAdmissionPolicy is older). A validation without a reason answers 422 (k8s.io/api
// admissionregistration/v1 types.go, Validation.Reason).
func OwnNode(namespace, account string) []Manifest {
	const (
		rbac      = "rbac.authorization.k8s.io"
		admission = "admissionregistration.k8s.io/v1"
	)
	policy := "nodejoin-own-node." + namespace + "." + account
	role := "nodejoin:own-token:" + account
	user := "system:serviceaccount:" + namespace + ":" + account
	object := func(apiVersion, kind, namespace, name string, fields map[string]any) Manifest {
		meta := map[string]any{"name": name, "labels": map[string]any{"app.kubernetes.io/managed-by": "nodejoin"}}
		if namespace != "" {
			meta["namespace"] = namespace
		}
		fields["apiVersion"], fields["kind"], fields["metadata"] = apiVersion, kind, meta
		return Manifest{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, Object: fields}
	}
	rule := func(group string, operations, resources []any) any {
		return map[string]any{"apiGroups": []any{group}, "apiVersions": []any{"v1"}, "operations": operations,
			"resources": resources}
	}
	named := func(name, expression string) any {
		return map[string]any{"name": name, "expression": expression}
	}
	extra := func(key string) string {
		return `request.userInfo.extra[?"authentication.kubernetes.io/` + key + `"][?0].orValue("")`
	}
	forbids := func(message, unless string) any {
		return map[string]any{"expression": unless, "message": message, "reason": "Forbidden"}
	}
	return []Manifest{
		object(admission, "ValidatingAdmissionPolicy", "", policy, map[string]any{"spec": map[string]any{
			"failurePolicy": "Fail",
			"matchConstraints": map[string]any{"resourceRules": []any{
				rule("", []any{"CREATE", "UPDATE", "DELETE"}, []any{"nodes", "nodes/status"}),
				rule("", []any{"CREATE"}, []any{"serviceaccounts/token"}),
				rule("", []any{"CREATE", "UPDATE"}, []any{"events"}),
				rule("coordination.k8s.io", []any{"CREATE", "UPDATE", "DELETE"}, []any{"leases"})}},
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
			}}}),
		object(admission, "ValidatingAdmissionPolicyBinding", "", policy, map[string]any{"spec": map[string]any{
			"policyName": policy, "validationActions": []any{"Deny"}}}),
		object(rbac+"/v1", "Role", namespace, role, map[string]any{"rules": []any{map[string]any{
			"apiGroups": []any{""}, "resources": []any{"serviceaccounts/token"}, "resourceNames": []any{account},
			"verbs": []any{"create"}}}}),
		object(rbac+"/v1", "RoleBinding", namespace, role, map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbac, "kind": "Role", "name": role},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": account, "namespace": namespace}}}),
	}
}
