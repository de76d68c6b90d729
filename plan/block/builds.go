package block

import "cmp"

// SandboxBuild is the default build of a sandbox.
const SandboxBuild = "10.0.20348"

// KnownBuild is the build of a Windows machine by the plan; "" if the plan does not give it.
func (m *Machine) KnownBuild() string {
	if box := m.Connection.Sandbox; box != nil {
		return cmp.Or(box.Build, SandboxBuild)
	}
	return m.GivenBuild
}
