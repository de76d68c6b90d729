package compat

import "strings"

// Names of the artifacts that a plan can give, in the order in which they are listed.
const (
	KubernetesNode = "kubernetes_node" // archive: kubernetes/node/bin/{kubelet,kube-proxy,kube-log-runner,kubeadm,kubectl}[.exe]
	ContainerdName = "containerd"      // archive: bin/{containerd,ctr,containerd-shim-...}[.exe]
	CNIPlugins     = "cni_plugins"     // archive: {host-local,win-bridge,win-overlay,...}[.exe] at its root
	FlannelCNI     = "flannel_cni"     // one file: the flannel CNI plugin
	Flanneld       = "flanneld"        // one file: the flannel daemon
	SDNCNI         = "sdn_cni"         // archive: {nat,sdnbridge,sdnoverlay}.exe at its root; Windows only
	Runc           = "runc"            // one file, Linux only: what containerd starts containers with
)

// ArtifactNames lists every name that Artifact knows.
func ArtifactNames() []string {
	return []string{KubernetesNode, ContainerdName, CNIPlugins, FlannelCNI, Flanneld, SDNCNI, Runc}
}

// VersionInFileName tells whether the upstream file name of an artifact holds its
// version; the address does in any case.
func VersionInFileName(name string) bool {
	return name == ContainerdName || name == CNIPlugins || name == SDNCNI
}

// Artifact is the upstream file name and address of an artifact; both are "" when
// upstream publishes none for the OS and architecture. version may have a leading
// "v"; it may be "" where only a file name that holds none is wanted. Flannel and
// windows-container-networking publish their Windows programs for amd64 only.
//
// Sources: kubernetes CHANGELOG ("Node Binaries"), and the release pages of
// containerd/containerd, containernetworking/plugins, flannel-io/cni-plugin,
// flannel-io/flannel, opencontainers/runc and microsoft/windows-container-networking
// (its release workflow holds the name of the archive).
func Artifact(name, version, os, arch string) (fileName, url string) {
	v := strings.TrimPrefix(version, "v")
	exe := ""
	if os == "windows" {
		exe = ".exe"
	}
	const github = "https://github.com/"
	var base string
	switch name {
	case KubernetesNode:
		fileName = "kubernetes-node-" + os + "-" + arch + ".tar.gz"
		base = "https://dl.k8s.io/v" + v + "/"
	case ContainerdName:
		fileName = "containerd-" + v + "-" + os + "-" + arch + ".tar.gz"
		base = github + "containerd/containerd/releases/download/v" + v + "/"
	case CNIPlugins:
		fileName = "cni-plugins-" + os + "-" + arch + "-v" + v + ".tgz"
		base = github + "containernetworking/plugins/releases/download/v" + v + "/"
	case FlannelCNI:
		fileName = "flannel-" + arch + exe
		base = github + "flannel-io/cni-plugin/releases/download/v" + v + "/"
	case Flanneld:
		fileName = "flanneld-" + arch
		if os == "windows" {
			fileName = "flanneld.exe"
		}
		base = github + "flannel-io/flannel/releases/download/v" + v + "/"
	case SDNCNI:
		if os != "windows" {
			return "", ""
		}
		fileName = "windows-container-networking-cni-" + arch + "-v" + v + ".zip"
		base = github + "microsoft/windows-container-networking/releases/download/v" + v + "/"
	case Runc:
		if os != "linux" {
			return "", ""
		}
		fileName = "runc." + arch
		base = github + "opencontainers/runc/releases/download/v" + v + "/"
	default:
		return "", ""
	}
	if os == "windows" && arch != "amd64" && (name == FlannelCNI || name == Flanneld || name == CNIPlugins || name == SDNCNI) {
		return "", ""
	}
	return fileName, base + fileName
}
