package compat

import "testing"

func TestSigned(t *testing.T) {
	const archive = "https://dl.k8s.io/v1.36.3/kubernetes-node-windows-amd64.tar.gz"
	s, ok := Signed(KubernetesNode, "v1.36.3", "windows", "amd64")
	if !ok || s.Signature != archive+".sig" || s.Certificate != archive+".cert" || s.Subject == "" || s.Issuer == "" {
		t.Errorf("%+v, %t", s, ok)
	}
	for _, c := range []struct{ name, version string }{
		{KubernetesNode, "1.25.16"}, {KubernetesNode, ""}, {KubernetesNode, "latest"}, {ContainerdName, "2.4.2"},
	} {
		if s, ok := Signed(c.name, c.version, "linux", "amd64"); ok {
			t.Errorf("%v: %+v", c, s)
		}
	}
}
