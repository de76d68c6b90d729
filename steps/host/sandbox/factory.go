package sandbox

import (
	"strings"

	"nodejoin/steps/host"
)

// factoryRegistry returns the registry values of a fresh machine that nodejoin reads: a server with the
// Containers feature, which adds the services hns and vmcompute, and a page file that Windows manages.
func (h *Host) factoryRegistry(q Quirks) map[string]map[string]host.RegistryValue {
	text := func(s string) host.RegistryValue { return host.RegistryValue{Type: "string", String: s} }
	number := func(n uint64) host.RegistryValue { return host.RegistryValue{Type: "dword", Number: n} }
	const control = `hklm\system\currentcontrolset\control\`
	const services = `hklm\system\currentcontrolset\services\`
	came := or(q.HostName, h.cfg.Hostname)
	name := text(host.NetBIOSName(came))
	revision, _, _ := strings.Cut(strings.TrimPrefix(h.cfg.Build, "10.0."), ".")
	return map[string]map[string]host.RegistryValue{
		`hklm\software\microsoft\windows nt\currentversion`: {"currentbuildnumber": text(revision),
			"productname":      text(h.product()),
			"installationtype": text("Server"), "ubr": number(9999)},
		control + `computername\computername`:       {"computername": name},
		control + `computername\activecomputername`: {"computername": name},
		nameParameters: {"hostname": text(came), "nv hostname": text(came)},
		control + `session manager\memory management`: {"pagingfiles": {Type: "multi_string",
			Strings: []string{`?:\pagefile.sys`}}},
		services + "hns":       {"start": number(3)},
		services + "vmcompute": {"start": number(3)},
	}
}

// furnish adds the values of a fresh machine to the registry, once. It does not change existing values.
func (h *Host) furnish(s *state) error {
	if s.Factory {
		return nil
	}
	q, err := h.quirks()
	if err != nil {
		return err
	}
	s.Factory = true
	for key, values := range h.factoryRegistry(q) {
		if s.Registry[key] == nil {
			s.Registry[key] = map[string]host.RegistryValue{}
		}
		for name, v := range values {
			if _, there := s.Registry[key][name]; !there {
				s.Registry[key][name] = v
			}
		}
	}
	return nil
}
