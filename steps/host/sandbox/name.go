package sandbox

import (
	"context"

	"nodejoin/steps/host"
)

// Where Windows stores the machine's name: the one that was set, and the one since boot.
const (
	nameParameters = `hklm\system\currentcontrolset\services\tcpip\parameters`
	computerNames  = `hklm\system\currentcontrolset\control\computername\`
)

// hostName returns the names. A machine that was never renamed has its configured name.
func (h *Host) hostName(s *state, q Quirks) host.HostName {
	came := or(q.HostName, h.cfg.Hostname)
	out := host.HostName{Now: or(s.HostName, came), Domain: q.Domain}
	out.Next = or(s.NextName, out.Now)
	return out
}

// HostName returns the machine's name.
func (h *Host) HostName(ctx context.Context) (out host.HostName, err error) {
	q, err := h.ask(ctx, "HostName", "name of the machine")
	if err != nil {
		return out, err
	}
	err = h.view(ctx, "read", "name of the machine", func(s *state) error {
		out = h.hostName(s, q)
		return nil
	})
	return out, err
}

// SetHostName renames the machine. On Windows this takes effect at the next boot.
func (h *Host) SetHostName(ctx context.Context, name string) error {
	return failed("set host name", name, h.change(ctx, func(s *state) error {
		if err := host.CheckHostName(name); err != nil {
			return err
		}
		s.NextName = name
		if !h.windows() {
			s.HostName = name
			return nil
		}
		h.noteName(s, nameParameters, "nv hostname", name)
		h.noteName(s, computerNames+"computername", "computername", host.NetBIOSName(name))
		return nil
	}))
}

// finishName is the part of a boot that makes a new name take effect.
func (h *Host) finishName(s *state) {
	if s.NextName == "" {
		return
	}
	s.HostName = s.NextName
	if h.windows() {
		h.noteName(s, nameParameters, "hostname", s.HostName)
		h.noteName(s, computerNames+"activecomputername", "computername", host.NetBIOSName(s.HostName))
	}
}

func (h *Host) noteName(s *state, key, value, name string) {
	if s.Registry[key] == nil {
		s.Registry[key] = map[string]host.RegistryValue{}
	}
	s.Registry[key][value] = host.RegistryValue{Type: "string", String: name}
}
