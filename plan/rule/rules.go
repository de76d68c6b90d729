package rule

import (
	"maps"
	"slices"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
)

// Rule is one rule over a decoded plan. One of its functions is set.
type Rule struct {
	name string
	// plan checks the plan as a whole.
	plan func(p *block.Plan)
	// node checks one machine, laid over its profile.
	node func(p *block.Plan, m *block.Machine)
	// block checks the arguments of one profile block or node block. node is the name of the
	// Node, "" for a profile; own and inherited are its max_pods and that of its profile.
	block func(p *block.Plan, s *eval.Section, own, inherited int, node string)
	// step checks a step of a step block, evaluated for a node.
	step func(p *block.Plan, m *block.Machine, a *block.Step)
	// expanded checks all steps of one machine.
	expanded func(p *block.Plan, x *Expanded)
}

// rules are all rules, in the order in which they run. Consecutive rules over nodes run node by
// node. A rule marks what it finds wrong, and later rules and the expansion leave that out.
var rules = []Rule{
	{name: "blocks of a cluster", plan: blocksOfACluster},
	{name: "a cluster has runtime and network", plan: clusterHasBlocks},
	{name: "the runtime fits Kubernetes", plan: runtimeFitsKubernetes},
	{name: "flannel carries IPv4", plan: flannelFamilies},
	{name: "versions of artifacts", plan: artifactVersions},
	{name: "arguments without a cluster", block: func(p *block.Plan, s *eval.Section, _, _ int,
		_ string) {
		withoutCluster(p, s)
	}},
	{name: "an SSH server without a cluster", node: sshWithoutCluster},
	{name: "settings without a kube-proxy", block: func(p *block.Plan, s *eval.Section, _, _ int,
		_ string) {
		withoutProxy(p, s)
	}},
	{name: "addresses for max_pods", block: manyPods},
	{name: "addresses of machines", node: addressesApart},
	{name: "addresses of one family", node: addressOfOneFamily},
	{name: "the Windows build", node: windowsBuild},
	{name: "direct server return", node: serverReturn},
	{name: "addresses from a cloud", node: cloudAddresses},
	{name: "fields of another system", node: otherSystem},
	{name: "credentials in files", node: fileCredentials},
	{name: "names of Nodes", plan: nodeNames},
	{name: "one machine, one node", plan: sameMachine},
	{name: "room for nodes", plan: roomForNodes},
	{name: "one link for host-gw", plan: onOneLink},
	{name: "steps of a cluster", plan: stepsOfACluster},
	{name: "settings of Windows", node: settings(settingsOfWindows)},
	{name: "the address of a proxy", node: settings(proxyAddress)},
	{name: "images of a node", node: settings(imagesOfNode)},
	{name: "credential providers", node: settings(credentialProviders)},
	{name: "paths of files", node: settings(filePaths)},
	{name: "services of a node", node: settings(services)},
	{name: "the guard of a node", node: settings(guard)},
	{name: "the plan that a node follows", node: settings(follow)},
	{name: "programs beside the node's own", node: settings(addons)},
	{name: "collectors of windows_exporter", node: settings(collectors)},
	{name: "settings of the firewall", node: settings(firewallEffect)},
	{name: "one port, one firewall rule", node: settings(firewallPorts)},
	{name: "settings of the machine", node: settings(hostEffect)},
	{name: "times for reboots", node: settings(rebootTimes)},
	{name: "dynamic ports", node: settings(dynamicPorts)},
	{name: "reserved ports", node: settings(reservedPorts)},
	{name: "the port of windows_exporter", node: settings(exporterPort)},
	{name: "names of machines", plan: hostNames},
	{name: "kinds and arguments of another system", step: systemsOf},
	{name: "arguments without effect", step: withoutEffect},
	{name: "contents of steps", step: stepContents},
	{name: "one thing, one step", expanded: onceMade},
	{name: "ports reserved once", expanded: reservedOnce},
	{name: "one object, one manifest", expanded: onceWritten},
	{name: "one port, one program", expanded: programPorts},
}

// Apply applies the rules to a plan.
func Apply(p *block.Plan) {
	for i := 0; i < len(rules); {
		n := i
		for n < len(rules) && rules[n].ofNodes() {
			n++
		}
		judgeNodes(p, rules[i:n])
		if n < len(rules) && rules[n].plan != nil {
			rules[n].plan(p)
		}
		i = n + 1
	}
}

// ApplyStep applies the rules for steps to a step of a node.
func ApplyStep(p *block.Plan, m *block.Machine, a *block.Step) {
	for _, r := range rules {
		if r.step != nil {
			r.step(p, m, a)
		}
	}
}

// ApplyExpanded applies the rules for the steps of a node.
func ApplyExpanded(p *block.Plan, x *Expanded) {
	for _, r := range rules {
		if r.expanded != nil {
			r.expanded(p, x)
		}
	}
}

// ofNodes reports whether the rule checks one node or profile at a time.
func (r Rule) ofNodes() bool { return r.node != nil || r.block != nil }

// judgeNodes applies rules to each profile and each machine in turn.
func judgeNodes(p *block.Plan, list []Rule) {
	for _, address := range judgedProfiles(p) {
		o := p.Profiles[address]
		for _, r := range list {
			if r.block != nil {
				r.block(p, o.Section, o.OwnMaxPods, 0, "")
			}
		}
	}
	for _, m := range p.Machines {
		for _, r := range list {
			if r.block != nil {
				r.block(p, m.Section, m.OwnMaxPods, m.InheritedMaxPods, m.Name)
			} else {
				r.node(p, m)
			}
		}
	}
}

// judgedProfiles returns the addresses of the profiles that rules are for: those of the plan, and those of modules
// that its nodes take. The others of a module are for other plans.
func judgedProfiles(p *block.Plan) []string {
	out := map[string]bool{}
	with := func(address string) {
		for o := p.Profiles[address]; o != nil && !out[address]; o = p.Profiles[address] {
			out[address] = true
			address = o.Names
		}
	}
	for _, b := range p.Written["profile"] {
		with("profile." + b.Labels[0])
	}
	for _, m := range p.Machines {
		with(m.Profile)
	}
	return slices.Sorted(maps.Keys(out))
}

// artifactVersions reports versions of artifacts that have no effect or contradict another block.
func artifactVersions(p *block.Plan) {
	for _, b := range p.Written["artifact"] {
		for _, a := range p.Artifacts[b.Labels[0]] {
			if a.Range == b.DefRange {
				artifactVersion(p, a)
			}
		}
	}
}
