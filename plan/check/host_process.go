package check

// isHostProcess reports whether a container of a pod is HostProcess; what the container does not set comes
// from the pod.
func isHostProcess(spec, container value) bool {
	v := container.at("securityContext", "windowsOptions", "hostProcess")
	if !v.there() {
		v = spec.at("securityContext", "windowsOptions", "hostProcess")
	}
	return v.yes()
}

// hostProcess checks the HostProcess containers of a pod, and hostNetwork, which goes with them.
func (k *checker) hostProcess(spec value) {
	of, network := spec.at("securityContext", "windowsOptions", "hostProcess"), spec.get("hostNetwork")
	var process, other value // one container of each sort
	for _, c := range containers(spec) {
		own := c.at("securityContext", "windowsOptions", "hostProcess")
		if is := isHostProcess(spec, c); is {
			process = c
		} else {
			other = c
		}
		if of.there() && own.there() && of.yes() != own.yes() {
			k.find("host-process-mixed", own, "the container says %s, the pod %s", own.str(), of.str())
			return // the rest depends on which one is meant
		}
	}
	if !process.there() {
		if network.yes() {
			k.find("host-network", network, "the pod is in the host's network, and no container is HostProcess")
		}
		return
	}
	if other.there() {
		k.find("host-process-mixed", other, "the container %s is not HostProcess, and %s is", other.get("name").str(),
			process.get("name").str())
	}
	if !network.yes() {
		at := spec.get("securityContext")
		if !at.there() {
			at = spec.get("containers")
		}
		k.find("host-process-network", at, "the pod is HostProcess and not in the host's network")
	}
	if r := k.cluster.Runtime; r == "docker" || r == "mcr" {
		k.find("host-process-runtime", process, "the container %s is HostProcess, and the runtime of the nodes is %s",
			process.get("name").str(), r)
	}
}
