package recipe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// Paths on a Windows node, as used by kubeadm, by the upstream install scripts and by flannel's defaults.
// Each has its drive, since a path without one means different places to a service and to an SSH session.
const (
	winBin            = `C:\k` // Kubernetes and flannel programs
	winKubelet        = `C:\var\lib\kubelet`
	winKubeletPKI     = `C:\var\lib\kubelet\pki`
	winKubernetes     = `C:\etc\kubernetes`
	winPKI            = `C:\etc\kubernetes\pki`
	winCA             = `C:\etc\kubernetes\pki\ca.crt`
	winContainerd     = `C:\Program Files\containerd`
	winContainerdData = `C:\ProgramData\containerd`
	winCNIBin         = `C:\opt\cni\bin`
	winCNIConf        = `C:\etc\cni\net.d`
	winCNIState       = `C:\var\lib\cni`
	winFlannelConf    = `C:\etc\kube-flannel`
	winFlannelRun     = `C:\run\flannel`
	winLog            = `C:\var\log`
	winDataDir        = `C:\ProgramData\nodejoin` // default of Input.DataDir
)

// minFree is the disk space that the programs and first images of a node need.
const minFree = "2GiB"

// winServices are the services of a Windows node besides its runtime, in start order.
var winServices = []string{"kubelet", "flanneld", "kube-proxy"}

// windows is the recipe of a Windows node.
//
// Its gates: the container runtime answers on its pipe, the kubelet is healthy, the Node has a pod network,
// flanneld has created the HNS network and written subnet.env, the source VIP is reserved (overlay),
// kube-proxy is healthy, the Node is Ready. A CNI that the cluster itself brings (network "none") comes after
// all of them: the last gate is then the kubelet's certificate, unless the plan says otherwise. Cluster steps
// are grouped where possible, since each change between host and cluster costs a round trip.
func (b *build) windows() {
	b.winPrepare()
	b.winPrograms()
	b.winRuntime()
	b.winAddons()
	b.winKubelet(b.winCredentials())
	b.winRegistered()
	b.serving(winKubeletPKI+`\kubelet-server-current.pem`, kubeletLog)
	b.winNetwork()
	b.winProxy()
	b.winNode()
	b.winReady()
}

// folder is a folder on the machine that a recipe creates.
type folder struct {
	id, path, title string
	access          host.Access
}

// winPrepare adds preflight, folders and firewall.
//
// Folders that hold programs, credentials or configuration of services that run as SYSTEM are private, since
// any user may change what is created below C:\. C:\var\lib\kubelet itself is not, as containers read their
// volumes there; the kubelet's settings in it are.
func (b *build) winPrepare() {
	first := b.networkAgrees()
	b.winPreflight(first...)
	b.settings("require")
	b.winWayIn()
	b.winPlaceholder()
	for _, d := range append([]folder{
		{"data_dir", b.dataDir(), "nodejoin's own folder", host.AccessPrivate},
		{"bin_dir", winBin, "Folder of the node's programs", host.AccessPrivate},
		{"kubernetes_dir", winKubernetes, "Folder of Kubernetes configuration", host.AccessPrivate},
		{"pki_dir", winPKI, "Folder of the cluster's CA", host.AccessPrivate},
		{"kubelet_dir", winKubelet, "Folder of the kubelet", host.AccessDefault},
		{"kubelet_pki_dir", winKubeletPKI, "Folder of the kubelet's keys", host.AccessPrivate},
		{"cni_bin_dir", winCNIBin, "Folder of CNI plugins", host.AccessPrivate},
		{"cni_conf_dir", winCNIConf, "Folder of CNI configuration", host.AccessPrivate},
		{"cni_state_dir", winCNIState, "Folder of CNI state", host.AccessPrivate},
		{"kubelet_log_dir", winLog + `\kubelet`, "Folder of the kubelet's log", host.AccessPrivate},
	}, b.runtimeFolders()...) {
		after := []string{"require"}
		switch d.id {
		case "pki_dir":
			after = []string{"kubernetes_dir"}
		case "kubelet_pki_dir":
			after = []string{"kubelet_dir"}
		}
		b.add(d.id, "directory", d.title, &kinds.Directory{Path: d.path, Access: d.access,
			Closed: b.closed(d.id, d.path)}, after...)
	}
	b.winFirewall("firewall_kubelet", "nodejoin-kubelet", "Kubelet API", "tcp", "10250")
	b.winNetworkPrepare()
}

// winWayIn keeps SSH open for all profiles of the firewall. The first network of HNS, nodejoin's or that of the
// cluster's CNI, moves the machine's address to a new adapter, and a network that Windows does not know is public;
// the rule that comes with OpenSSH on Windows Server 2025 is not for public networks. A rule of the plan for SSH
// stands instead. A run on the machine itself does not have the step, and must not close the way for the next one
// over SSH.
func (b *build) winWayIn() {
	if b.in.SSHPort == 0 || b.wayIn() != nil {
		return
	}
	rule := b.winFirewall("firewall_ssh", wayInRule, "SSH, for nodejoin", "tcp", fmt.Sprint(b.in.SSHPort))
	if rule != nil {
		rule.UntilLeave = true
	}
}

// wayInRule is the rule that keeps SSH open, which is also that of a block `allow "ssh"`.
const wayInRule = "nodejoin-ssh"

// wayIn returns the id of the step that keeps SSH open, if there is one.
func (b *build) wayIn() []string {
	for _, s := range b.specs {
		var rule kinds.FirewallRule
		if s.Kind == "firewall_rule" && json.Unmarshal(s.Args, &rule) == nil && rule.Name == wayInRule {
			return []string{s.ID}
		}
	}
	return nil
}

// winFirewall admits packets of the cluster; nil if nodejoin does not manage the firewall.
func (b *build) winFirewall(id, name, what, protocol, ports string) *steps.Spec {
	if b.in.Settings.Firewall.Off {
		b.leave(id)
		return nil
	}
	s := b.add(id, "firewall_rule", fmt.Sprintf("Firewall: %s/%s in", ports, protocol),
		&kinds.FirewallRule{FirewallRule: host.FirewallRule{
			Name: name, DisplayName: what, Description: "Managed by nodejoin", Direction: "in", Action: "allow",
			Protocol: protocol, Ports: ports, Enabled: true,
			Remote: strings.Join(b.in.Settings.Firewall.Remote, ","),
		}}, "require")
	s.Keep = b.in.Settings.Firewall.Keep
	return s
}

// winPrograms adds all artifacts.
func (b *build) winPrograms() {
	if b.in.Settings.Services.NSSM {
		b.keeping(b.in.Settings.Services.Keep, func() {
			b.archive("nssm", "nssm", kinds.Archive{Source: b.artifact(compat.NSSM), To: winBin, Strip: 2,
				Include: []string{"nssm-*/win64/nssm.exe"}, Services: winServices}, "bin_dir")
		})
	}
	if b.flannel() {
		b.program("agent", AgentArtifact, b.agentPath(), "nodejoin agent, the supervisor of flanneld", "flanneld",
			"data_dir", nodeService)
	} else {
		b.program("agent", AgentArtifact, b.agentPath(), "nodejoin agent", nodeService, "data_dir")
	}
	b.winRuntimeFiles()
	b.archive("kubernetes_node", "Kubernetes "+b.in.Kubernetes+" node programs",
		kinds.Archive{Source: b.artifact(compat.KubernetesNode),
			To: winBin, Strip: 3, Include: []string{"kubernetes/node/bin/*.exe"}, Services: []string{"kubelet", "kube-proxy"},
			Versions: map[string]string{"kubelet.exe": "v" + b.in.Kubernetes}}, "bin_dir")
	b.winNetworkPrograms()
}

// program adds an artifact that is a single file. An archive is rejected: the name of its member varies, and
// a wrong guess would only show when a pod starts. service and others run from it.
func (b *build) program(id, artifact, path, title, service, after string, others ...string) {
	src := b.artifact(artifact)
	if isArchive(src) {
		b.fail(fmt.Errorf("artifact %q: %s is an archive; give the program itself", artifact, src.Name()))
	}
	args := &kinds.Binary{Source: src, Path: path}
	if service != "" {
		args.Services = append([]string{service}, others...)
	}
	b.add(id, "binary", title, args, after).Retries = downloadRetries(src)
}

func (b *build) archive(id, title string, a kinds.Archive, after string) {
	b.add(id, "archive", title, &a, after).Retries = downloadRetries(a.Source)
}

// downloadRetries: downloads are retried, as connections drop while HNS rebuilds the machine's network. Files
// of the controller are not.
func downloadRetries(src steps.Source) int {
	if src.URL != "" {
		return 2
	}
	return 0
}

func (b *build) dataDir() string {
	if b.in.DataDir != "" {
		return b.in.DataDir
	}
	return winDataDir
}

func (b *build) agentPath() string {
	return host.Join("windows", b.dataDir(), `bin\nodejoin-agent.exe`)
}

// logged returns the command of a service that writes to its standard error: run through kube-log-runner if
// the node archive has it, otherwise told to write the file itself. Both limit the size of the file,
// kube-log-runner since 1.34.
func (b *build) logged(log string, command ...string) []string {
	s := b.in.Settings.Services
	if !b.kubernetes.LogRunner {
		// MiB; klog v2 klog.go
		flags := []string{"--logtostderr=false", "--log-file=" + log, fmt.Sprintf("--log-file-max-size=%d", s.logSize())}
		return slices.Concat(command[:1], flags, command[1:])
	}
	runner := []string{b.logRunner(), "-log-file=" + log}
	if b.kubernetes.LogRunnerRotationFlags {
		runner = append(runner, fmt.Sprintf("-log-file-size=%dMi", s.logSize()), "-log-file-age="+s.logAge(),
			"-flush-interval=5s")
	}
	return append(runner, command...)
}

func (b *build) logRunner() string { return winBin + `\kube-log-runner.exe` }

// programs returns the files that a Kubernetes service runs from.
func (b *build) programs(name string) []string {
	if !b.kubernetes.LogRunner || b.in.Settings.Services.NSSM {
		return join(winBin, name)
	}
	return append(join(winBin, name), b.logRunner())
}

// winService is a service that starts with the machine and restarts after a failure.
func winService(name, description string, command []string, dependsOn ...string) host.ServiceConfig {
	again := host.RecoveryAction{Action: "restart", Delay: 10 * time.Second}
	return host.ServiceConfig{Name: name, DisplayName: name, Description: description, Command: command,
		Start:     host.StartAuto,
		DependsOn: dependsOn, Recovery: []host.RecoveryAction{again, again, again}, RecoveryReset: 86400}
}

func join(dir string, names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, strings.TrimRight(dir, `\`)+`\`+n)
	}
	return out
}
