# Windows nodes take only pods that ask for Windows, where the plan has Linux nodes, too.
package main

deny contains msg if {
	some other in input.desired.nodes
	other.os == "linux"
	some n in input.desired.nodes
	n.os == "windows"
	not keeps_others_away(n)
	msg := sprintf("%s: %s has no taint os=windows:NoSchedule", [n.source, n.address])
}

keeps_others_away(n) if {
	some t in n.taints
	t.key in {"os", "node.kubernetes.io/os"}
	t.value == "windows"
	t.effect in {"NoSchedule", "NoExecute"}
}
