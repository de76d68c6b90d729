package plan

import (
	"encoding/json"
	"fmt"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
)

// samePort reports programs of one recipe that cannot both have their port. Only what the
// plan says of them can bring that about.
func (c *compiler) samePort(m *block.Machine, ports []recipe.Port) {
	for i, p := range ports {
		for _, before := range ports[:i] {
			if p.Meets(before) {
				c.FailOn(m.Name, m.Range, "two programs on one port", "On node %q %s, so one of them could not start. Give one "+
					"another port in the kubelet, kube_proxy or windows_exporter block of the node or its profile.", m.Name,
					bothListen(before, p))
			}
		}
	}
}

// servicePorts holds the services of step blocks against the programs of the node and
// each other, as far as their command lines say where they listen.
func (x *expansion) servicePorts() {
	var all []recipe.Port
	for _, s := range x.specs[x.recipe:] {
		var service host.ServiceConfig
		if s.Kind != "service" || json.Unmarshal(s.Args, &service) != nil {
			continue
		}
		if all == nil {
			all = append(all, x.shape.ports...)
		}
		for _, p := range recipe.PortsOf(service.Name, service.Command) {
			for _, before := range all {
				if p.Meets(before) {
					x.c.FailOn(x.m.Name, x.origins[s.ID].At("command"), "two programs on one port",
						"On node %q %s, so one of them could not start. Give the service another port.", x.m.Name, bothListen(before, p))
				}
			}
			all = append(all, p)
		}
	}
}

func bothListen(a, b recipe.Port) string {
	return fmt.Sprintf("%s (%s) and %s (%s) listen on port %d/%s", a.Program, a.For, b.Program, b.For, b.Port, b.Protocol)
}
