package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// guardInterval is the time between two checks, unless the plan says otherwise.
const guardInterval = time.Minute

// nodeSource is the registry key where Windows looks up the messages of a program's entries in the event log
// (learn.microsoft.com/windows/win32/eventlog/event-sources).
const nodeSource = currentControl + `\Services\EventLog\Application\` + nodeService

// bootSteps are the steps that the service repeats, in order.
var bootSteps = []string{"containerd", "containerd_ready", "docker", "docker_ready", "kubelet", "kubelet_ready",
	"pod_network", "net_conf", "flannel_network", "flanneld", "subnet_env", "cni_conf", "source_vip", "kube_proxy_config",
	"kube_proxy", "kube_proxy_ready"}

// winNode adds the file with the boot part of the steps, and the service that runs it, which also keeps
// containerd's log small. The service comes after all of those steps, so that it finds nothing to do when it first
// starts.
func (b *build) winNode() {
	logDir := b.logDir(nodeService)
	after := []string{"data_dir", "kubelet_ready"}
	if b.flannel() {
		after = append(after, "cni_conf")
	}
	if b.kubeProxy() {
		after = append(after, "kube_proxy_ready")
	}
	after = append(after, b.metricsFiles()...)
	file := b.nodeSteps(steps.BootPlan{Steps: b.bootPart(), Guard: b.guard()}, after...)
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
		Makes: []string{logDir},
	}, "agent", "node_steps", "node_log_dir", "node_event_source", "node_event_types")
}

// guard is what the service does between two applies; nil = nothing.
func (b *build) guard() *steps.Guard {
	set := b.in.Settings.Guard
	if set.Off {
		return nil
	}
	g := &steps.Guard{Interval: cmp.Or(set.Interval, guardInterval), API: b.in.APIServer, Folders: []string{winKubelet},
		Textfile: set.Textfile}
	if b.in.Runtime.Kind == "containerd" {
		g.Folders = append(g.Folders, winContainerdData)
	}
	switch {
	case b.flannel():
		g.Network, g.Restart = b.networkName(), "flanneld"
		if b.in.Runtime.Kind == "containerd" {
			g.CRI = containerdPipe
		}
	case b.kubeProxy(): // the network is the CNI's, and so are its pods
		g.Network, g.Restart = b.in.Network.HNSNetwork, "kube_proxy"
	}
	if set.MetricsPort != 0 {
		g.Listen = fmt.Sprintf("%s:%d", set.metricsAddress(), set.MetricsPort)
	}
	if set.Certificate != "" {
		g.Certificate, g.Key = b.metricsFile("crt"), b.metricsFile("key")
	}
	return g
}

func (b *build) metricsFile(ending string) string {
	return host.Join("windows", b.dataDir(), "metrics."+ending)
}

// metricsFiles adds the certificate and key of the metrics. The service reads them again for each connection.
func (b *build) metricsFiles() []string {
	set := b.in.Settings.Guard
	if set.Certificate == "" || set.Off {
		return nil
	}
	b.add("metrics_certificate", "file", "Certificate of the metrics of "+nodeService,
		&kinds.File{Path: b.metricsFile("crt"), Access: host.AccessPrivate, Content: set.Certificate}, "data_dir")
	b.add("metrics_key", "file", "Key of the metrics of "+nodeService,
		&kinds.File{Path: b.metricsFile("key"), Access: host.AccessPrivate, Content: set.Key, Sensitive: true}, "data_dir")
	return []string{"metrics_certificate", "metrics_key"}
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
