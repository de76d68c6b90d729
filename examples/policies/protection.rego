# No plan turns off what protects Windows: Defender's real-time protection, the firewall's profiles, UAC.
package main

protection := [
	{"key": `^HKLM\\SOFTWARE\\Policies\\Microsoft\\Windows Defender(\\.*)?$`, "name": "^Disable", "off": 1},
	{"key": `^HKLM\\SYSTEM\\CurrentControlSet\\Services\\SharedAccess\\.*Profile$`, "name": "^EnableFirewall$", "off": 0},
	{
		"key": `^HKLM\\SOFTWARE\\Microsoft\\Windows\\CurrentVersion\\Policies\\System$`,
		"name": "^EnableLUA$", "off": 0,
	},
]

deny contains msg if {
	some n in input.desired.nodes
	some s in n.steps
	s.kind == "registry"
	some p in protection
	regex.match(concat("", ["(?i)", p.key]), s.args.key)
	regex.match(concat("", ["(?i)", p.name]), s.args.name)
	object.get(s.args, "number", 0) == p.off
	msg := sprintf("%s: %s turns protection of the machine off (%s)", [s.source, s.address, s.args.name])
}
