# Host keys are known beforehand: nobody is trusted at first contact.
package main

deny contains msg if {
	some n in input.desired.nodes
	n.connection.accept_new
	msg := sprintf("%s: %s takes any host key at first contact; pin host_key, or keep a known_hosts file", [
		n.connection.source,
		n.address,
	])
}
