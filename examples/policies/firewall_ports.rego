# A plan opens only ports that are known. A firewall rule that is deleted in review is closed by the next apply.
package main

deny contains msg if {
	some n in input.desired.nodes
	some s in n.steps
	s.kind == "firewall_rule"
	s.args.action == "allow"
	s.args.direction == "in"
	not s.args.absent
	some port in split(object.get(s.args, "ports", "any"), ",")
	not port in data.allowed.ports
	msg := sprintf("%s: %s opens port %s/%s", [s.source, s.address, port, s.args.protocol])
}
