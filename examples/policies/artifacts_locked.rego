# Every artifact has its digest from nodejoin.lock.hcl, so that a change of it is seen in review.
package main

deny contains msg if {
	some a in input.desired.artifacts
	not a.locked
	msg := sprintf("%s: the artifact %s (%s) is not locked; run 'nodejoin lock'", [a.source, a.name, a.platform])
}
