package main

import "testing"

// TestAdmits: a rule counts for its profiles and ports, if it is in force.
func TestAdmits(t *testing.T) {
	const all = "v2.31|Name=x|Protocol=6|LPort=80,22|Dir=In|Active=TRUE|Profile=2147483647|Action=Allow|"
	for rule, want := range map[string]bool{
		all:           true,
		ownRule("22"): false,
		"v2.31|Name=x|Protocol=6|LPort=22|Dir=In|Active=FALSE|Action=Allow|":  false,
		"v2.31|Name=x|Protocol=6|LPort=22|Dir=Out|Active=TRUE|Action=Allow|":  false,
		"v2.31|Name=x|Protocol=17|LPort=22|Dir=In|Active=TRUE|Action=Allow|":  false,
		"v2.31|Name=x|Protocol=6|LPort=22|Dir=In|Active=TRUE|Action=Block|":   false,
		"v2.31|Name=x|Protocol=6|LPort=2222|Dir=In|Active=TRUE|Action=Allow|": false,
	} {
		if have := admits(rule, 22, profilePublic); have != want {
			t.Errorf("%v, want %v: %s", have, want, rule)
		}
	}
	if !admits(ownRule("22"), 22, profilePrivate) {
		t.Error("the rule of OpenSSH does not admit it in a private network")
	}
}
