# A publisher vouches for every artifact: by a signature, or at least by a checksum file.
# A warning, as publishers of some artifacts do neither. Make it deny where yours all do.
package main

warn contains msg if {
	some a in input.desired.artifacts
	not a.verified in {"checksum", "signature"}
	msg := sprintf("%s: nobody vouches for the artifact %s (%s)", [a.source, a.name, a.platform])
}
