# No credentials of a person are copied onto a node: a kubelet asks for a certificate of its own.
package main

deny contains msg if {
	some n in input.desired.nodes
	some s in n.steps
	endswith(s.address, ".kubelet_kubeconfig")
	msg := sprintf("%s: %s copies a kubeconfig onto the node; join with token or kubeadm", [s.source, n.address])
}

deny contains msg if {
	some n in input.desired.nodes
	some s in n.steps
	s.kind == "file"
	regex.match(`client-key-data:|client-certificate-data:`, object.get(s.args, "content", ""))
	msg := sprintf("%s: %s writes a kubeconfig onto the node", [s.source, s.address])
}

deny contains msg if {
	some n in input.desired.nodes
	some s in n.steps
	regex.match(`(?i)[\\/](admin|super-admin)\.conf$|[\\/]\.kube[\\/]config$`, object.get(s.args, "path", ""))
	msg := sprintf("%s: %s is where administrators keep their kubeconfig", [s.source, s.args.path])
}
