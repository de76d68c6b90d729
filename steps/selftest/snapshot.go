package selftest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"nodejoin/steps/host"
)

// snapshot is what a machine has, by part, as far as the test could change it.
type snapshot map[string][]string

// keys of the registry of Windows that list what the test makes.
const (
	serviceKeys   = host.CurrentControlSet + "Services"
	firewallRules = host.CurrentControlSet + `Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules`
	eventSources  = host.CurrentControlSet + `Services\EventLog\Application`
	variables     = host.CurrentControlSet + `Control\Session Manager\Environment`
	authorityKeys = `HKLM\SOFTWARE\Microsoft\SystemCertificates\ROOT\Certificates`
	openSSH       = `HKLM\SOFTWARE\OpenSSH`
)

// snapshot looks at the machine. A part that cannot be read has the reason.
func (t *test) snapshot(ctx context.Context) snapshot {
	s := snapshot{}
	s.add("the service "+ownName, one(t.host.Service(ctx, ownName)))
	s.add("the host name", one(t.host.HostName(ctx)))
	s.add("what needs a reboot", list(t.host.RebootNoted(ctx)))
	s.add("routes", list(t.host.Routes(ctx)))
	s.add("adapters", list(t.host.Adapters(ctx)))
	s.add("files of nodejoin", t.fileNames(ctx, t.facts.DataDir))
	if t.facts.OS == "linux" {
		s.add("interfaces", list(t.host.Interfaces(ctx)))
		s.add("chains of the packet filter", list(t.host.FilterChains(ctx)))
		s.add("units of systemd", t.fileNames(ctx, "/etc/systemd/system"))
		s.add("net.ipv4.ip_forward", one(t.host.Sysctl(ctx, "net.ipv4.ip_forward")))
		return s
	}
	for part, key := range map[string]string{"services": serviceKeys, "rules of the firewall": firewallRules,
		"sources of the event log": eventSources, "variables": variables, "authorities": authorityKeys,
		"settings of OpenSSH": openSSH, `HKLM\SOFTWARE`: `HKLM\SOFTWARE`} {
		keys, values, err := t.host.RegistryNames(ctx, key)
		s.add(part, list(append(keys, values...), err))
	}
	s.add("the rule "+ownName, one(t.host.FirewallRule(ctx, ownName)))
	s.add("the variable "+ownVar, one(t.host.MachineEnv(ctx, ownVar)))
	s.add("the default shell of SSH", one(t.host.RegistryValue(ctx, openSSH, "DefaultShell")))
	s.add("the feature Containers", one(t.host.Feature(ctx, "Containers")))
	s.add("reserved ports", one(t.host.PortsReserved(ctx, ownPorts)))
	s.add("networks of HNS", t.networkNames(ctx))
	return s
}

func (s snapshot) add(part string, lines []string) { s[part] = lines }

func one[T any](v T, err error) []string { return list([]T{v}, err) }

// list is one line for each of v; where it could not be read, the reason.
func list[T any](v []T, err error) (lines []string) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return []string{"cannot be read: " + err.Error()}
	}
	for _, one := range v {
		lines = append(lines, fmt.Sprintf("%+v", one))
	}
	return lines
}

func (t *test) fileNames(ctx context.Context, dir string) []string {
	entries, err := t.host.List(ctx, dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return list(names, err)
}

func (t *test) networkNames(ctx context.Context) []string {
	networks, err := t.host.HNSNetworks(ctx)
	var names []string
	for _, n := range networks {
		names = append(names, n.Name+" "+n.ID)
	}
	return list(names, err)
}

// differences says, part by part, what was added and what is missing.
func differences(before, after snapshot) (out []string) {
	for _, part := range slices.Sorted(maps.Keys(before)) {
		for _, line := range without(after[part], before[part]) {
			out = append(out, part+": now also "+line)
		}
		for _, line := range without(before[part], after[part]) {
			out = append(out, part+": no longer "+line)
		}
	}
	return out
}

// without are the lines of a that are not in b.
func without(a, b []string) (out []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, line)
		}
	}
	return out
}
