# The kubelet answers nobody whom the API server does not know.
package main

kubelets contains {"step": s, "config": yaml.unmarshal(s.args.content)} if {
	some n in input.desired.nodes
	some s in n.steps
	endswith(s.address, ".kubelet_config")
}

deny contains msg if {
	some k in kubelets
	object.get(k.config, ["authentication", "anonymous", "enabled"], true) != false
	msg := sprintf("%s: the kubelet answers anonymous requests", [k.step.source])
}

deny contains msg if {
	some k in kubelets
	object.get(k.config, ["authorization", "mode"], "AlwaysAllow") != "Webhook"
	msg := sprintf("%s: the kubelet does not ask the API server who may do what", [k.step.source])
}

deny contains msg if {
	some k in kubelets
	object.get(k.config, "readOnlyPort", 0) != 0
	msg := sprintf("%s: the kubelet has its read-only port open", [k.step.source])
}
