package main

import (
	"net"

	"golang.org/x/sys/windows/registry"
)

// openSSHRule is the name of OpenSSH's own rule.
const openSSHRule = "OpenSSH-Server-In-TCP"

const rulesKey = `SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules`

// addRule adds OpenSSH's own rule for a port.
func addRule(port string) error {
	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, rulesKey, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer key.Close()
	return key.SetStringValue(openSSHRule, ownRule(port))
}

// filtered reports whether the firewall refuses new connections to an address: with a virtual switch the network of
// the machine is a public one.
func filtered(address net.Addr) (bool, error) {
	profile := profilePrivate
	if switchExists() {
		profile = profilePublic
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, rulesKey, registry.QUERY_VALUE)
	if err != nil {
		return false, err
	}
	defer key.Close()
	names, err := key.ReadValueNames(0)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		rule, _, err := key.GetStringValue(name)
		if err != nil {
			return false, err
		}
		if admits(rule, address.(*net.TCPAddr).Port, profile) {
			return false, nil
		}
	}
	return true, nil
}
