package compat

import "testing"

func TestSigned(t *testing.T) {
	const archive = "https://dl.k8s.io/v1.36.3/kubernetes-node-windows-amd64.tar.gz"
	s, ok := Signed(KubernetesNode, "v1.36.3", "windows", "amd64")
	if !ok || s.Signature != archive+".sig" || s.Certificate != archive+".cert" || s.Subject == "" || s.Issuer == "" {
		t.Errorf("%+v, %t", s, ok)
	}
	const release = "https://github.com/containerd/containerd/"
	s, ok = Signed(ContainerdName, "v2.2.1", "windows", "amd64")
	if want := (Signature{Bundle: release + "releases/download/v2.2.1/containerd-2.2.1-attestation.intoto.jsonl",
		Subject: release + ".github/workflows/release.yml@refs/tags/v2.2.1",
		Issuer:  "https://token.actions.githubusercontent.com"}); !ok || s != want {
		t.Errorf("%+v, %t", s, ok)
	}
	for _, c := range []struct{ name, version string }{
		{KubernetesNode, "1.25.16"}, {KubernetesNode, ""}, {KubernetesNode, "latest"}, {ContainerdName, "2.0.9"},
		{ContainerdName, "1.7.35"}, {Runc, "1.4.0"}, {"cni_plugins", "1.9.1"},
	} {
		if s, ok := Signed(c.name, c.version, "linux", "amd64"); ok {
			t.Errorf("%v: %+v", c, s)
		}
	}
}
