package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// portsTaken stops once nodejoin has registered a service of the node, which may hold its ports through a
// child process.
func portsTaken(ctx context.Context, s *pass) ([]observed, error) {
	if len(s.q.Ports) == 0 {
		return nil, nil
	}
	own, err := s.own(ctx)
	if err != nil || len(own) > 0 {
		return nil, err
	}
	list, err := s.r.Listeners(ctx)
	var out []observed
	for _, text := range s.q.Ports {
		protocol, port, _ := splitPort(text)
		for _, l := range list {
			if l.Protocol == protocol && l.Port == port {
				by := "a program"
				if l.PID != 0 {
					by = fmt.Sprintf("process %d", l.PID)
				}
				out = append(out, observed{fmt.Sprintf("%s holds port %d/%s", by, port, protocol),
					"end that program, or give it another port"})
			}
		}
	}
	return out, err
}

// portsDynamic finds the node's ports in the range of dynamic ports. On a machine that has joined, the
// programs hold them.
func portsDynamic(ctx context.Context, s *pass) ([]observed, error) {
	own, err := s.own(ctx)
	if err != nil || len(own) > 0 {
		return nil, err
	}
	within := map[host.PortRange][]string{}
	for _, protocol := range []string{"tcp", "udp"} {
		r, err := s.r.DynamicPorts(ctx, protocol)
		if errors.Is(err, host.ErrUnsupported) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, text := range s.q.Ports {
			if p, port, _ := splitPort(text); p == protocol && r.First <= port && port <= r.Last {
				within[r] = append(within[r], fmt.Sprint(port))
			}
		}
	}
	var out []observed
	for _, r := range slices.SortedFunc(maps.Keys(within), func(a, b host.PortRange) int {
		return strings.Compare(a.Protocol, b.Protocol)
	}) {
		remedy := `say host { dynamic_ports = "34000-65535" } in the plan`
		if r.Protocol == "udp" {
			remedy = "netsh interface ipv4 set dynamicport udp start=34000 num=31536, and the same for ipv6"
		}
		out = append(out,
			observed{fmt.Sprintf("the dynamic ports %s include %s of the node", r, strings.Join(within[r], ", ")), remedy})
	}
	return out, nil
}

// portsExcluded finds the node's ports that Windows gives to no program. It does not check a machine that
// has joined, because the check takes each port for a moment.
func portsExcluded(ctx context.Context, s *pass) ([]observed, error) {
	own, err := s.own(ctx)
	if err != nil || len(own) > 0 {
		return nil, err
	}
	var out []observed
	for _, text := range s.q.Ports {
		protocol, port, _ := splitPort(text)
		excluded, err := s.r.PortExcluded(ctx, protocol, port)
		if err != nil {
			return out, err
		}
		if excluded {
			out = append(out, observed{fmt.Sprintf("no program holds port %d/%s, but Windows refuses it", port, protocol),
				fmt.Sprintf("find the range that has it (netsh interface ipv4 show excludedportrange %s): delete "+
					"one with a star by netsh. Others belong to Windows' NAT, which takes them from the dynamic "+
					"ports: move these above the node's (host { dynamic_ports = \"34000-65535\" } in the plan, "+
					"netsh for udp) and reboot the machine", protocol)})
		}
	}
	return out, nil
}
