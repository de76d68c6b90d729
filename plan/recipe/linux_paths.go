package recipe

import (
	"time"

	"nodejoin/steps/host"
)

// Paths on a Linux node: those of kubeadm, of the containerd and flannel guides, and of their defaults.
const (
	linBin            = "/usr/local/bin"
	linKubelet        = "/var/lib/kubelet"
	linKubeletPKI     = "/var/lib/kubelet/pki"
	linKubernetes     = "/etc/kubernetes"
	linPKI            = "/etc/kubernetes/pki"
	linCA             = "/etc/kubernetes/pki/ca.crt"
	linContainerd     = "/etc/containerd"
	linContainerdData = "/var/lib/containerd"
	linCNIBin         = "/opt/cni/bin"
	linCNIConf        = "/etc/cni/net.d"
	linCNIState       = "/var/lib/cni"
	linFlannelConf    = "/etc/kube-flannel"
	linFlannelRun     = "/run/flannel"
	linDataDir        = "/var/lib/nodejoin" // default of Input.DataDir
)

const (
	linContainerdSocket   = "/run/containerd/containerd.sock" // containerd defaults/defaults_unix.go
	linContainerdEndpoint = "unix://" + linContainerdSocket
)

// linServices are the services of a Linux node, in start order.
var linServices = []string{"containerd", "kubelet", "flanneld", "kube-proxy"}

func (b *build) linData() string {
	if b.in.DataDir != "" {
		return b.in.DataDir
	}
	return linDataDir
}

// linLog is the output file of a service under nodejoin's own manager. Under systemd the host reads the
// journal instead.
func (b *build) linLog(service string) string { return b.linData() + "/services/" + service + ".log" }

// linService is a service that starts with the machine and restarts after a failure.
func linService(name, description string, command []string, dependsOn ...string) host.ServiceConfig {
	return host.ServiceConfig{Name: name, DisplayName: name, Description: description, Command: command,
		Start: host.StartAuto, DependsOn: dependsOn,
		Recovery: []host.RecoveryAction{{Action: "restart", Delay: 5 * time.Second}}}
}

const (
	linKubeletConfig = linKubelet + "/config.yaml"
	linKubeletDropIn = linKubelet + "/config.conf.d" // beside kubeadm's config.yaml
	linKubeletConf   = linKubernetes + "/kubelet.conf"
	linBootstrapConf = linKubernetes + "/bootstrap-kubelet.conf"
	linFlannelKube   = linKubernetes + "/flannel.conf"
	linProxyKube     = linKubernetes + "/kube-proxy.conf"
	linFollowKube    = linKubernetes + "/nodejoin-follow.conf"
	linNodeKube      = linKubernetes + "/nodejoin-node.conf"
	linNetConf       = linFlannelConf + "/net-conf.json"
	linSubnetFile    = linFlannelRun + "/subnet.env"
	linProxyConfig   = linKubernetes + "/kube-proxy.yaml"
)
