package plan

import "nodejoin/plan/recipe"

// input is what the recipe is told of a machine.
func (k *cluster) input(m *machine) recipe.Input {
	in := k.base
	in.Node, in.OS, in.Arch, in.DataDir = m.Name, m.OS, m.Arch, m.DataDir
	in.Sandbox = m.Connection.Type == "sandbox"
	in.ManagementIP, in.ManagementIP6, in.Taints, in.Labels, in.MaxPods = m.managementIP, m.management6, m.taints, m.labels, m.maxPods
	in.Build, in.Settings, in.Waive = m.build, m.settings, m.waive
	if box := m.Connection.Sandbox; box != nil {
		in.Build = box.Build
	}
	in.Kubelet, in.KubeProxy = m.component("kubelet"), m.component("kube_proxy")
	in.Source = m.Source
	return in
}

// component is what the recipe is told of one program.
func (m *machine) component(block string) recipe.Component {
	k := m.components[block]
	return recipe.Component{Config: k.config, Args: k.args, Off: k.on != nil && !*k.on}
}
