package recipe

import (
	"cmp"
	"strings"

	"nodejoin/steps/host"
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
	winLog            = `C:\var\log`              // of the kubelet's pods, and default of Services.LogDir
	winDataDir        = `C:\ProgramData\nodejoin` // default of Input.DataDir
)

// minFree is the disk space that the programs and first images of a node need.
const minFree = "2GiB"

// winServices are the services of a Windows node besides its runtime, in start order.
var winServices = []string{"kubelet", "flanneld", "kube-proxy"}

// folder is a folder on the machine that a recipe creates.
type folder struct {
	id, path, title string
	access          host.Access
}

func (b *build) dataDir() string {
	if b.in.DataDir != "" {
		return b.in.DataDir
	}
	return winDataDir
}

// data is nodejoin's own folder on the machine.
func (b *build) data() string {
	if b.in.OS == "linux" {
		return b.linData()
	}
	return b.dataDir()
}

func (b *build) agentPath() string {
	if b.in.OS == "linux" {
		return linBin + "/nodejoin-agent"
	}
	return host.Join("windows", b.dataDir(), `bin\nodejoin-agent.exe`)
}

// logDir is the folder of a service's log.
func (b *build) logDir(service string) string {
	return host.Join("windows", cmp.Or(b.in.Settings.Services.LogDir, winLog), service)
}

// logFile is a service's log.
func (b *build) logFile(service string) string {
	return host.Join("windows", b.logDir(service), service+".log")
}

func join(dir string, names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, strings.TrimRight(dir, `\`)+`\`+n)
	}
	return out
}

const (
	kubeletConfig    = winKubelet + `\config.yaml`
	kubeletConf      = winKubernetes + `\kubelet.conf`
	bootstrapConf    = winKubernetes + `\bootstrap-kubelet.conf`
	flannelConf      = winKubernetes + `\flannel.conf`
	kubeProxyConf    = winKubernetes + `\kube-proxy.conf`
	winNodeKube      = winKubernetes + `\nodejoin-node.conf`
	winFollowKube    = winKubernetes + `\nodejoin-follow.conf`
	kubeletHealthz   = 10248 // kubernetes pkg/cluster/ports; see Ports
	kubeProxyHealthz = 10256
	kubeProxyMetrics = 10249
)

const (
	containerdPipe     = `\\.\pipe\containerd-containerd` // containerd defaults/defaults_windows.go
	containerdEndpoint = "npipe:////./pipe/containerd-containerd"
	containerdCerts    = winContainerd + `\certs.d`

	dockerPipe     = `\\.\pipe\docker_engine` // moby client/client_windows.go
	dockerEndpoint = "npipe:////./pipe/docker_engine"
	winDocker      = `C:\Program Files\docker`
	winDockerData  = `C:\ProgramData\docker` // dockerd's default
	winDockerConf  = winDockerData + `\config`
)

// The kubelet files that kubeadm writes, and the file beside them that holds nodejoin's settings and takes
// precedence.
const (
	kubeadmFlags  = winKubelet + `\kubeadm-flags.env`
	kubeletDropIn = winKubelet + `\config.conf.d`
)

// nodeService restores the node after a boot: services start in another order than in a join, and kube-proxy
// exits when it does not find the pod network. Between two applies it is the node's guard.
const nodeService = "nodejoin-node"
