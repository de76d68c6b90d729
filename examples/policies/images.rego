# Images come from registries that are allowed: the pause image, and those of manifests.
package main

deny contains msg if {
	some use in images
	not from_allowed(use.image)
	msg := sprintf("%s: %s uses the image %s", [use.step.source, use.step.address, use.image])
}

# Workloads have their containers in spec.template.spec, pods in spec.
images contains {"step": s, "image": image} if {
	some n in input.desired.nodes
	some s in n.steps
	s.kind == "manifest"
	some document in regex.split(`(?m)^---\s*$`, s.args.content)
	walk(yaml.unmarshal(document), [path, image])
	path[count(path) - 1] == "image"
	is_string(image)
}

# containerd's file is TOML, which Rego does not read.
images contains {"step": s, "image": match[1]} if {
	some n in input.desired.nodes
	some s in n.steps
	endswith(s.address, ".containerd_config")
	some match in regex.find_all_string_submatch_n(`(?m)^\s*sandbox(?:_image)? = ['"]([^'"]+)`, s.args.content, -1)
}

from_allowed(image) if {
	some registry in data.allowed.registries
	startswith(image, registry)
}
