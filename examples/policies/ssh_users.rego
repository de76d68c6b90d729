# Linux machines are reached as a user with sudo, not as root.
package main

deny contains msg if {
	some n in input.desired.nodes
	n.os == "linux"
	n.connection.type == "ssh"
	n.connection.user == "root"
	msg := sprintf("%s: %s logs in as root; name a user, and a become block", [n.connection.source, n.address])
}
