package compat

import "testing"

func TestChecksum(t *testing.T) {
	const hub, at = "https://github.com/", "/releases/download/v1.2.3/"
	want := map[string]string{
		KubernetesNode:  "https://dl.k8s.io/v1.2.3/kubernetes-node-windows-amd64.tar.gz.sha256",
		ContainerdName:  hub + "containerd/containerd" + at + "containerd-1.2.3-windows-amd64.tar.gz.sha256sum",
		CNIPlugins:      hub + "containernetworking/plugins" + at + "cni-plugins-windows-amd64-v1.2.3.tgz.sha256",
		WindowsExporter: hub + "prometheus-community/windows_exporter" + at + "sha256sums.txt",
	}
	for _, name := range ArtifactNames() { // the others have no checksum file
		if have := Checksum(name, "v1.2.3", "windows", "amd64"); have != want[name] {
			t.Errorf("%s: %q, want %q", name, have, want[name])
		}
	}
	if have := Checksum(Runc, "1.2.3", "linux", "arm64"); have !=
		hub+"opencontainers/runc"+at+"runc.sha256sum" {
		t.Errorf("runc: %q", have)
	}
	if have := Checksum(CNIPlugins, "1.2.3", "windows", "arm64"); have != "" {
		t.Errorf("a checksum file of an unpublished artifact: %q", have)
	}
}
