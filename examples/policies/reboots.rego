# No reboots where allowed.reboots is false, as in the weeks before a holiday.
package main

deny contains msg if {
	not data.allowed.reboots
	some h in input.hosts
	some s in h.steps
	s.change.reboot
	msg := sprintf("%s: the machine would be rebooted: %s", [s.address, concat(", ", s.change.reboot.why)])
}
