package plan

import (
	"cmp"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
)

// recipeInput returns the input of the recipe for a machine.
func recipeInput(k *block.ClusterBlocks, m *block.Machine) recipe.Input {
	in := k.Base
	in.Node, in.OS, in.Arch, in.DataDir = m.Name, m.OS, m.Arch, m.DataDir
	in.Sandbox = m.Connection.Type == "sandbox"
	if m.Connection.Type == "ssh" {
		in.SSHPort = cmp.Or(m.Connection.SSH.Port, 22) // a port that only ssh_config has is not known here
	}
	if m.Connection.WinRM != nil {
		in.WinRMPort = cmp.Or(m.Connection.WinRM.Port, block.WinRMPort)
		if setup := m.Connection.WinRM.SetupSSH; setup != nil {
			in.SSHKey = setup.Key
		}
	}
	in.ManagementIP, in.ManagementIP6, in.Taints, in.Labels, in.MaxPods = m.IP, m.IP6, m.GivenTaints, m.GivenLabels,
		m.MaxPods
	in.Interface = m.Interface
	in.Build, in.Settings, in.Waive = m.GivenBuild, m.RecipeSettings, m.Waive
	if box := m.Connection.Sandbox; box != nil {
		in.Build = box.Build
	}
	in.Kubelet, in.KubeProxy = componentOf(m, "kubelet"), componentOf(m, "kube_proxy")
	in.Source = m.Source
	return in
}

// componentOf returns the recipe's input for one program.
func componentOf(m *block.Machine, name string) recipe.Component {
	k := m.Components[name]
	return recipe.Component{Config: k.Config, Args: k.Args, Off: k.On != nil && !*k.On}
}
