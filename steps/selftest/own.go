package selftest

import "nodejoin/steps/host"

// The things that the test makes. Nothing else on a machine has these names.
const (
	ownName = "nodejoin-selftest"
	ownKey  = `HKLM\SOFTWARE\` + ownName
	ownVar  = "NODEJOIN_SELFTEST"
)

// ownPorts are reserved for a moment.
var ownPorts = host.PortRange{Protocol: "tcp", First: 20499, Last: 20499}

// ownNetworks are the HNS networks that the test makes.
var ownNetworks = []string{ownName, ownName + "-2"}
