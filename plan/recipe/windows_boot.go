package recipe

import (
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// bootService restores the node after a boot: services start in another order than in a join, and kube-proxy
// exits when it does not find the pod network.
const bootService = "nodejoin-boot"

// bootSource is the registry key where Windows looks up the messages of a program's entries in the event log
// (learn.microsoft.com/windows/win32/eventlog/event-sources).
const bootSource = currentControl + `\Services\EventLog\Application\` + bootService

// bootSteps are the steps that are repeated after a boot, in order.
var bootSteps = []string{"containerd", "containerd_ready", "docker", "docker_ready", "kubelet", "kubelet_ready",
	"flannel_network", "flanneld", "subnet_env", "source_vip", "kube_proxy_config", "kube_proxy", "kube_proxy_ready"}

// winBoot adds the file with the boot part of the steps, and the service that runs it. The service comes
// after all of those steps, so that it finds nothing to do when it first starts.
func (b *build) winBoot() {
	if b.in.Network.Kind != "flannel" {
		return // nothing of the node is lost with a boot
	}
	file, logDir := host.Join("windows", b.dataDir(), "boot.json"), winLog+`\`+bootService
	last := "cni_conf"
	if b.kubeProxy() {
		last = "kube_proxy_ready"
	}
	b.add("boot_steps", "file", "Steps to repeat after a boot", &kinds.File{Path: file, Access: host.AccessPrivate,
		Content: steps.BootText(b.in.Node, b.bootPart())}, "data_dir", last)
	b.add("boot_log_dir", "directory", "Folder of the boot log",
		&kinds.Directory{Path: logDir, Access: host.AccessPrivate}, "require")
	for _, v := range []struct {
		id, name string
		value    host.RegistryValue
	}{
		// EventCreate.exe comes with Windows; its messages are the plain text.
		{"boot_event_source", "EventMessageFile",
			host.RegistryValue{Type: "expand_string", String: `%SystemRoot%\System32\EventCreate.exe`}},
		{"boot_event_types", "TypesSupported", dword(7)}, // errors, warnings, information
	} {
		b.add(v.id, "registry", "Event log: entries of "+bootService,
			&kinds.Registry{Key: bootSource, Name: v.name, RegistryValue: v.value}, "require")
	}
	log := logDir + `\boot.log`
	b.add("boot_service", "service", "Service "+bootService, &kinds.Service{
		ServiceConfig: winService(bootService, "Restores the node after a boot", []string{b.agentPath(), "boot",
			"--name", bootService, "--data", b.dataDir(), "--steps", file, "--log", log}),
		Watch: []string{b.agentPath(), file},
		Log:   log,
		Makes: []string{logDir},
	}, "agent", "boot_steps", "boot_log_dir", "boot_event_source", "boot_event_types")
}

// bootPart returns bootSteps as they run after a boot. Runtime and kubelet are only started if they do not
// run: their environment may hold a proxy password, which should not be written to another file.
func (b *build) bootPart() []steps.Spec {
	var out []steps.Spec
	for _, id := range bootSteps {
		i := slices.IndexFunc(b.specs, func(s steps.Spec) bool { return s.ID == id })
		if i < 0 {
			continue
		}
		s := b.specs[i]
		service, ok := kinds.As[kinds.Service](s)
		if ok && id != "flanneld" && id != "kube_proxy" {
			s.Kind, s.Args = "service_running", steps.MustArgs(&kinds.ServiceRunning{Name: service.Name, Log: service.Log})
		}
		out = append(out, s)
	}
	return out
}
