package recipe

import (
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// nodeSource is the registry key where Windows looks up the messages of a program's entries in the event log
// (learn.microsoft.com/windows/win32/eventlog/event-sources).
const nodeSource = currentControl + `\Services\EventLog\Application\` + nodeService

// winNode adds the file with the boot part of the steps, and the service that runs it, which also keeps
// containerd's log small. The service comes after all of those steps, so that it finds nothing to do when it first
// starts.
func (b *build) winNode() {
	logDir := b.logDir(nodeService)
	file := b.nodeSteps(logDir)
	b.add("node_log_dir", "directory", "Folder of the log of nodejoin-node",
		&kinds.Directory{Path: logDir, Access: host.AccessPrivate}, "require")
	for _, v := range []struct {
		id, name string
		value    host.RegistryValue
	}{
		// EventCreate.exe comes with Windows; its messages are the plain text.
		{"node_event_source", "EventMessageFile",
			host.RegistryValue{Type: "expand_string", String: `%SystemRoot%\System32\EventCreate.exe`}},
		{"node_event_types", "TypesSupported", dword(7)}, // errors, warnings, information
	} {
		b.add(v.id, "registry", "Event log: entries of "+nodeService,
			&kinds.Registry{Key: nodeSource, Name: v.name, RegistryValue: v.value}, "require")
	}
	log := logDir + `\node.log`
	b.add("node_service", "service", "Service "+nodeService, &kinds.Service{
		ServiceConfig: winService(nodeService, "Keeps the node in order", []string{b.agentPath(), "node",
			"--name", nodeService, "--data", b.dataDir(), "--steps", file, "--log", log}),
		Watch: []string{b.agentPath(), file},
		Log:   log,
		Makes: append([]string{logDir}, b.followed()...),
	}, "agent", "node_steps", "node_log_dir", "node_event_source", "node_event_types")
}
