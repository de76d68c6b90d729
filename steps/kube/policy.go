package kube

const admission = "admissionregistration.k8s.io/v1"

// managed is an object that nodejoin makes.
func managed(apiVersion, kind, namespace, name string, fields map[string]any) Manifest {
	meta := map[string]any{"name": name, "labels": map[string]any{"app.kubernetes.io/managed-by": "nodejoin"}}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	fields["apiVersion"], fields["kind"], fields["metadata"] = apiVersion, kind, meta
	return Manifest{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, Object: fields}
}

// policy is a ValidatingAdmissionPolicy, which fails closed, with its binding.
func policy(name string, spec map[string]any) []Manifest {
	spec["failurePolicy"] = "Fail"
	return []Manifest{
		managed(admission, "ValidatingAdmissionPolicy", "", name, map[string]any{"spec": spec}),
		managed(admission, "ValidatingAdmissionPolicyBinding", "", name, map[string]any{"spec": map[string]any{
			"policyName": name, "validationActions": []any{"Deny"}}}),
	}
}

// requests are those that a policy is about.
func requests(group string, operations, resources []any) any {
	return map[string]any{"apiGroups": []any{group}, "apiVersions": []any{"v1"}, "operations": operations,
		"resources": resources}
}

// named is a condition or a variable of a policy, in CEL.
func named(name, expression string) any {
	return map[string]any{"name": name, "expression": expression}
}

// forbids is a validation that answers 403; one without a reason answers 422 (k8s.io/api admissionregistration/v1
// types.go, Validation.Reason).
func forbids(message, unless string) any {
	return map[string]any{"expression": unless, "message": message, "reason": "Forbidden"}
}
