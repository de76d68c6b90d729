# No run drains pods of the namespaces that are to be kept.
package main

deny contains msg if {
	some h in input.hosts
	some pod in h.interruption.evict
	some namespace in data.allowed.keep_namespaces
	startswith(pod, concat("", [namespace, "/"]))
	msg := sprintf("%s: the pod %s would be evicted", [h.address, pod])
}
