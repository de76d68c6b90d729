# What looks like a secret is sensitive in the plan, so that nobody's screen or log has it.
package main

looks_secret := `(?i)(password|passwd|secret|token|api_?key)`

deny contains msg if {
	some n in input.desired.nodes
	some s in n.steps
	s.kind == "env"
	regex.match(looks_secret, s.args.name)
	not s.args.absent
	s.args.value != "(sensitive)"
	msg := sprintf("%s: the variable %s is not sensitive", [s.source, s.args.name])
}

deny contains msg if {
	some n in input.desired.nodes
	some s in n.steps
	s.kind == "service"
	some line in object.get(s.args, "environment", [])
	[name, value] := split(line, "=")
	regex.match(looks_secret, name)
	value != "(sensitive)"
	msg := sprintf("%s: %s of the service %s is not sensitive", [s.source, name, s.args.name])
}
