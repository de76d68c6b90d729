# A run takes only a small part of the nodes out of service at once.
package main

deny contains msg if {
	nodes := count(input.desired.nodes)
	most := max([1, floor((nodes * data.allowed.unavailable_percent) / 100)])
	input.desired.rollout.max_unavailable > most
	msg := sprintf("rollout: max_unavailable is %d of %d nodes, at most %d are allowed", [
		input.desired.rollout.max_unavailable,
		nodes,
		most,
	])
}
