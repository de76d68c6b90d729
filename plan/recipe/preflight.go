package recipe

import (
	"slices"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/preflight"
)

// winPreflight checks the machine against everything that is known about the node.
func (b *build) winPreflight(after ...string) {
	n := b.in.Network
	q := &preflight.Preflight{OS: "windows", Arch: b.in.Arch, MinBuild: compat.MinBuild(), Path: `C:\`, MinFree: minFree,
		Address: b.in.ManagementIP, Address6: b.in.ManagementIP6, Interface: b.in.Interface,
		APIServer: b.in.APIServer, CA: steps.Ref("cluster.ca"),
		PodCIDR: b.in.PodCIDR, ServiceCIDR: b.in.ServiceCIDR,
		Services: slices.Concat(b.runtimeServices(), winServices), Required: b.runtimeRequired(), Ports: portTexts(b.in),
		Leftovers: join(winCNIState, "networks"),
		Proxy:     b.in.Settings.Proxy != nil, Waive: b.in.Waive}
	if b.in.Build != "" {
		q.MinBuild = b.in.Build
	}
	if b.in.Settings.CSIProxy != nil {
		q.Services = append(q.Services, csiProxyService)
	}
	if b.in.Settings.Exporter != nil {
		q.Services = append(q.Services, exporterService)
	}
	q.MinRevisions, q.BadRevisions = compat.Updates(n.Backend)
	if b.dualStack() {
		build, revision := compat.FeatureSince(compat.DualStack)
		q.MinRevisions[build] = revision
		if b.in.Build == "" {
			q.MinBuild = build
		}
	}
	if n.Kind == "flannel" {
		q.HNSNetworks = []string{b.networkName(), placeholderNetwork}
		q.Leftovers = append(q.Leftovers, subnetFile)
		if n.Backend == VXLAN {
			// of Kubernetes/windows/helper.psm1
			q.Leftovers = append(q.Leftovers, join(winBin, "SourceVip.json", "SourceVipRequest.json")...)
		}
	}
	if n.Placeholder {
		q.Placeholder = PlaceholderSubnet
	}
	// The kubelet's own folder, which holds the volumes of pods, is the parent of its keys' folder.
	q.Guarded = []string{b.dataDir(), winBin, winKubernetes, winPKI, winKubeletPKI, winCNIBin, winCNIConf}
	for _, f := range b.runtimeFolders() {
		q.Guarded = append(q.Guarded, f.path)
	}
	if n.Kind == "flannel" {
		q.Guarded = append(q.Guarded, winFlannelConf, winFlannelRun)
	}
	q.StaticKept = b.sets("static_address")
	q.SSHPort, q.Reboots, q.FirewallOff = b.in.SSHPort, b.reboots(), b.in.Settings.Firewall.Off
	q.Switch = q.FirewallOff && q.SSHPort != 0 && b.flannel() // what only matters then
	q.Named = b.sets(hostName)
	q.Proxies = b.proxyAddresses()
	if !b.reboots() {
		q.Features = b.features()
	}
	if b.turnsOn("Containers") {
		q.Waive = append(slices.Clone(q.Waive), "containers-feature") // a step takes care of it
	}
	if b.sets("dynamic_ports") {
		q.Waive = append(slices.Clone(q.Waive), "port-dynamic") // a step takes care of it
	}
	b.add("require", "preflight", "The machine meets the requirements (Windows "+q.MinBuild+" or later)", q, after...)
}

// linPreflight does the same for a Linux node.
func (b *build) linPreflight() {
	q := &preflight.Preflight{OS: "linux", Arch: b.in.Arch, Path: "/var/lib", MinFree: minFree,
		Address: b.in.ManagementIP, Address6: b.in.ManagementIP6, Interface: b.in.Interface,
		APIServer: b.in.APIServer, CA: steps.Ref("cluster.ca"),
		PodCIDR: b.in.PodCIDR, ServiceCIDR: b.in.ServiceCIDR,
		Services: linServices, Ports: portTexts(b.in), Waive: b.in.Waive,
		NoSwap: !b.refused("failSwapOn"), CgroupV2: b.kubernetes.CgroupV1Fails && !b.refused("failCgroupV1")}
	q.Named = b.sets(hostName)
	q.Proxy, q.Proxies = b.in.Settings.Proxy != nil, b.proxyAddresses()
	if b.flannel() {
		q.Leftovers = []string{linFlannelRun + "/subnet.env"}
		q.Programs = []string{"iptables"} // flanneld, kube-proxy and the plugin portmap run it
	} else {
		q.Services = linServices[:2]
	}
	if b.nftables() {
		q.Programs = append(q.Programs, "nft")
	}
	if !b.proxy() {
		q.Services = slices.DeleteFunc(slices.Clone(q.Services), func(s string) bool { return s == "kube-proxy" })
	}
	b.add("require", "preflight", "The machine meets the requirements (Linux)", q)
}
