# A service that the plan no longer names is removed only with a person's look.
package main

deny contains msg if {
	some h in input.hosts
	some r in h.removals
	startswith(r.key, "service:")
	not trim_prefix(r.key, "service:") in data.allowed.remove_services
	msg := sprintf("%s: the service %s would be removed", [h.address, trim_prefix(r.key, "service:")])
}
