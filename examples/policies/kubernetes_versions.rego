# Nodes run a minor version of Kubernetes that still gets fixes.
package main

deny contains msg if {
	c := input.desired.cluster
	minor := concat(".", array.slice(split(c.kubernetes, "."), 0, 2))
	not minor in data.allowed.kubernetes
	msg := sprintf("%s: Kubernetes %s gets no more fixes; take one of %s", [
		c.source,
		c.kubernetes,
		concat(", ", data.allowed.kubernetes),
	])
}
