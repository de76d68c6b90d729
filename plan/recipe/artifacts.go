package recipe

import (
	"slices"

	"nodejoin/plan/compat"
)

// AgentArtifact is the nodejoin-agent program, which is the node's own service. The other artifact
// names are in plan/compat.
const AgentArtifact = "agent"

// SelfArtifact is the program nodejoin, on nodes that follow a plan.
const SelfArtifact = "nodejoin"

// Artifacts returns the names of the artifacts that Expand needs, sorted.
func Artifacts(in Input) []string {
	if in.OS == "linux" {
		names := linuxArtifacts(in)
		slices.Sort(names)
		return names
	}
	names := slices.Concat([]string{compat.KubernetesNode}, runtimeArtifacts(in), networkArtifacts(in),
		addonArtifacts(in), followArtifacts(in))
	slices.Sort(names)
	return slices.Compact(names)
}

// linuxArtifacts returns the names of a Linux node's artifacts.
func linuxArtifacts(in Input) []string {
	names := []string{compat.KubernetesNode, compat.ContainerdName, compat.Runc, AgentArtifact}
	if in.Runtime.Crictl != "" {
		names = append(names, compat.Crictl)
	}
	if in.Network.Kind != "none" {
		names = append(names, compat.CNIPlugins, compat.FlannelCNI, compat.Flanneld)
	}
	return append(names, followArtifacts(in)...)
}

// followArtifacts returns the names of what a node follows its plan with.
func followArtifacts(in Input) []string {
	if f := in.Settings.Follow; f != nil && !f.given() {
		return []string{SelfArtifact}
	}
	return nil
}

// runtimeArtifacts returns the names of the runtime's artifacts.
func runtimeArtifacts(in Input) []string {
	switch {
	case in.Runtime.Installed:
		return nil
	case in.Runtime.Kind != "containerd":
		return []string{in.Runtime.Kind}
	case in.Runtime.Crictl != "":
		return []string{compat.ContainerdName, compat.Crictl}
	}
	return []string{compat.ContainerdName}
}

// networkArtifacts returns the names of the pod network's artifacts.
func networkArtifacts(in Input) []string {
	if in.Network.Kind == "none" {
		return []string{AgentArtifact}
	}
	names := []string{AgentArtifact, compat.CNIPlugins, compat.FlannelCNI, compat.Flanneld} // the agent runs flanneld
	if in.Network.sdn() {
		names = append(names, compat.SDNCNI)
	}
	return names
}

func addonArtifacts(in Input) []string {
	var names []string
	if in.Settings.Services.NSSM {
		names = append(names, compat.NSSM)
	}
	if in.Settings.CSIProxy != nil {
		names = append(names, compat.CSIProxy)
	}
	if in.Settings.Exporter != nil {
		names = append(names, compat.WindowsExporter)
	}
	return names
}
