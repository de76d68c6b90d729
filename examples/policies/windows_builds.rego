# Windows machines run a release that Microsoft and Kubernetes support.
package main

deny contains msg if {
	some n in input.desired.nodes
	n.os == "windows"
	not n.build in data.allowed.windows_builds
	n.build
	msg := sprintf("%s: %s is for Windows %s, which is not supported", [n.source, n.address, n.build])
}

# The machine itself, where it was reached.
deny contains msg if {
	some h in input.hosts
	h.facts.os == "windows"
	not supported(h.facts.build)
	msg := sprintf("%s: the machine runs Windows %s, which is not supported", [h.address, h.facts.build])
}

supported(build) if {
	some b in data.allowed.windows_builds
	startswith(concat("", [build, "."]), concat("", [b, "."]))
}
