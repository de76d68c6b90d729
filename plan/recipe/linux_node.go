package recipe

import "nodejoin/steps/kinds"

// linNode adds the service that keeps the node in order between two applies and renews its tokens.
func (b *build) linNode() {
	const logDir = "/var/log/" + nodeService
	file := b.nodeSteps(logDir)
	b.add("node_service", "service", "Service "+nodeService, &kinds.Service{
		ServiceConfig: linService(nodeService, "Keeps the node in order", []string{
			b.agentPath(), "node", "--name", nodeService, "--data", b.data(), "--steps", file, "--log", logDir + "/node.log"}),
		Watch: []string{file},
		Log:   logDir + "/node.log",
		Makes: append([]string{logDir}, b.followed()...),
	}, "agent", "node_steps")
}
