package recipe

import (
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// linNode adds the service that renews the tokens of flanneld and kube-proxy. The service manager alone brings a Linux
// node back after a boot.
func (b *build) linNode() {
	const logDir = "/var/log/" + nodeService
	file := b.nodeSteps(steps.BootPlan{}, "data_dir")
	b.add("node_service", "service", "Service "+nodeService, &kinds.Service{
		ServiceConfig: linService(nodeService, "Renews the tokens of flanneld and kube-proxy", []string{
			b.agentPath(), "node", "--name", nodeService, "--data", b.data(), "--steps", file, "--log", logDir + "/node.log"}),
		Watch: []string{file},
		Log:   logDir + "/node.log",
		Makes: []string{logDir},
	}, "agent", "node_steps")
}
