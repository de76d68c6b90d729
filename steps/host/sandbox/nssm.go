package sandbox

import (
	"strings"

	"nodejoin/steps/host"
)

// serviceKey returns the registry key of a service, as the state stores it.
func serviceKey(name string) string {
	return `hklm\system\currentcontrolset\services\` + strings.ToLower(name)
}

// wrapped returns a service with the command that really runs: nssm runs the program that its parameters name
// (nssm.cc, "Usage"), and none without parameters.
func (h *Host) wrapped(s *state, svc *service) *service {
	if !h.windows() || h.fold(h.base(svc.Command[0])) != "nssm.exe" {
		return svc
	}
	parameters := s.Registry[serviceKey(svc.Name)+`\parameters`]
	text := func(name string) string { return parameters[name].String }
	out := *svc
	out.Command = append([]string{svc.Command[0], text("application")}, host.SplitCommandLine(text("appparameters"))...)
	if text("application") == "" {
		out.Command = []string{svc.Command[0], `C:\no\application.exe`}
	}
	if log := text("appstderr"); log != "" { // where logExit writes
		out.Command = append([]string{svc.Command[0], "--log=" + log}, out.Command[1:]...)
	}
	return &out
}
