package steps

import "nodejoin/steps/host"

var registryKind = Kind{Name: "registry", Place: OnHost, Doc: "a registry value, or its absence",
	New: func() any { return &Registry{} }}

// Registry is one value of a registry key.
type Registry struct {
	Key  string `json:"key" doc:"for example HKLM\\SYSTEM\\CurrentControlSet\\Services\\hns\\State"`
	Name string `json:"name" doc:"name of the value; \"\" is the key's default value"`
	host.RegistryValue
	Absent bool `json:"absent,omitempty" doc:"the value must not exist"`
}
