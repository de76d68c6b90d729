package compat

import "strings"

// Names of the artifacts that a plan can give, in listing order.
const (
	// archive: kubernetes/node/bin/{kubelet,kube-proxy,kube-log-runner,kubeadm,kubectl}[.exe]
	KubernetesNode = "kubernetes_node"
	ContainerdName = "containerd"  // archive: bin/{containerd,ctr,containerd-shim-...}[.exe]
	CNIPlugins     = "cni_plugins" // archive: {host-local,win-bridge,win-overlay,...}[.exe] at its root
	FlannelCNI     = "flannel_cni" // one file: the flannel CNI plugin
	Flanneld       = "flanneld"    // one file: the flannel daemon
	SDNCNI         = "sdn_cni"     // archive: {nat,sdnbridge,sdnoverlay}.exe at its root; Windows only
	Runc           = "runc"        // one file, Linux only: containerd starts containers with it
	DockerName     = "docker"      // archive: docker/{dockerd,docker}.exe; Windows only
	MCR            = "mcr"         // Mirantis' docker
	// one file, Windows only: works on the machine for storage plugins in unprivileged pods
	CSIProxy        = "csi_proxy"
	NSSM            = "nssm"             // archive: nssm-VERSION/win64/nssm.exe; Windows only: runs programs as services
	WindowsExporter = "windows_exporter" // one file, Windows only: metrics of the machine
	Crictl          = "crictl"           // archive: crictl[.exe] at its root
)

// ArtifactNames returns every name that Artifact accepts.
func ArtifactNames() []string {
	return []string{KubernetesNode, ContainerdName, CNIPlugins, FlannelCNI, Flanneld, SDNCNI, DockerName, MCR, Crictl,
		Runc, CSIProxy, WindowsExporter, NSSM}
}

// VersionInFileName reports whether the upstream file name of an artifact contains its version. The URL
// always does.
func VersionInFileName(name string) bool {
	switch name {
	case ContainerdName, CNIPlugins, SDNCNI, DockerName, MCR, Crictl, WindowsExporter, NSSM:
		return true
	}
	return false
}

// Artifact returns the upstream file name and URL of an artifact; both are "" if upstream publishes none for
// the OS and architecture. version may have a leading "v"; it may be "" if the caller only needs a file name
// that contains no version. Flannel, Docker and windows-container-networking publish their Windows programs
// for amd64 only. Mirantis publishes to customers only, and the csi-proxy project publishes no program at
// all, so these have a file name and no URL.
//
// Sources: kubernetes CHANGELOG ("Node Binaries"), docs.docker.com (install Docker Engine from binaries), and
// the release pages of containerd/containerd, containernetworking/plugins, flannel-io/cni-plugin,
// flannel-io/flannel, kubernetes-sigs/cri-tools, opencontainers/runc and
// microsoft/windows-container-networking, prometheus-community/windows_exporter, and nssm.cc (its release
// workflow names the archive).
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
	case DockerName, MCR:
		if os != "windows" || arch != "amd64" {
			return "", ""
		}
		fileName = "docker-" + v + ".zip"
		if name == MCR {
			return fileName, ""
		}
		base = "https://download.docker.com/win/static/stable/x86_64/"
	case CSIProxy:
		if os != "windows" {
			return "", ""
		}
		return "csi-proxy.exe", ""
	case NSSM: // its versions have two numbers, 2.24; on arm64 the same program is emulated
		if os != "windows" {
			return "", ""
		}
		fileName = "nssm-" + strings.TrimSuffix(v, ".0") + ".zip"
		base = "https://nssm.cc/release/"
	case WindowsExporter:
		if os != "windows" {
			return "", ""
		}
		fileName = "windows_exporter-" + v + "-" + arch + exe
		base = github + "prometheus-community/windows_exporter/releases/download/v" + v + "/"
	case Crictl:
		fileName = "crictl-v" + v + "-" + os + "-" + arch + ".tar.gz"
		base = github + "kubernetes-sigs/cri-tools/releases/download/v" + v + "/"
	default:
		return "", ""
	}
	if os == "windows" && arch != "amd64" &&
		(name == FlannelCNI || name == Flanneld || name == CNIPlugins || name == SDNCNI) {
		return "", ""
	}
	return fileName, base + fileName
}

// Checksum returns the address of the file in which upstream names the digest of the file that Artifact returns, in
// the form of sha256sum; "" if upstream publishes none, or none is known. These have none: flannel_cni (its sums are
// of archives only), flanneld, sdn_cni, docker, mcr, csi_proxy, nssm, and crictl (its release notes show the digests).
//
// Sources: containernetworking/plugins scripts/release.sh and containerd/containerd Makefile (a file beside each
// archive); opencontainers/runc script/release_sign.sh (one signed list for all architectures);
// prometheus-community/windows_exporter .github/workflows/release.yml (promu checksum: one list); and for Kubernetes
// the files beside the archives at dl.k8s.io.
func Checksum(name, version, os, arch string) (url string) {
	_, address := Artifact(name, version, os, arch)
	if address == "" {
		return ""
	}
	folder := address[:strings.LastIndex(address, "/")+1]
	switch name {
	case KubernetesNode, CNIPlugins:
		return address + ".sha256"
	case ContainerdName:
		return address + ".sha256sum"
	case Runc:
		return folder + "runc.sha256sum"
	case WindowsExporter:
		return folder + "sha256sums.txt"
	}
	return ""
}
