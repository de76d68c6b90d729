package compat

import (
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{"1.36.3": "1.36.3", "v1.36.3": "1.36.3", "1.9.1-flannel1": "1.9.1-flannel1",
		"1.36": "", "1": "", "": "", "latest": "", "1.36.3.4": "", "V1.2.3": "", "vv1.2.3": "", "\x201.2.3": ""} {
		v, err := Parse(in)
		if (err == nil) != (want != "") || err == nil && v.String() != want {
			t.Errorf("%q: have %v, %v, want %q", in, v, err, want)
		}
		if have := Canonical(in); want != "" && have != want || want == "" && have != in {
			t.Errorf("Canonical(%q) = %q", in, have)
		}
	}
}

// Every row of the table applies from its first version until just before its last.
// A row that never applies is a mistake.
func TestKubernetesTable(t *testing.T) {
	for _, row := range kubernetesTable {
		if row.source == "" {
			t.Error("a row has no source")
		}
		if row.span.until != (line{}) && !row.span.since.less(row.span.until) {
			t.Errorf("%s: the span %v is empty", row.source, row.span)
		}
		for _, at := range []line{row.span.since, row.span.until} {
			if at != (line{}) && kubernetesNewest.less(at) {
				t.Errorf("%s: %v is newer than the newest version of the table", row.source, at)
			}
		}
	}
}

func TestKubelet(t *testing.T) {
	for _, c := range []struct {
		version string
		want    Kubernetes
	}{
		{"1.18.20", Kubernetes{CRIv1alpha2: true, DockerFlags: true, CgroupsPerQOSFatal: true, WinOverlayGate: true,
			WinDSRGate: true}},
		{"1.19.16", Kubernetes{Supported: true, CRIv1alpha2: true, DockerFlags: true, CgroupsPerQOSFatal: true,
			WinOverlayGate: true, WinDSRGate: true}},
		{"1.20.15", Kubernetes{Supported: true, DualStack: true, DualStackGate: true, CRIv1alpha2: true, DockerFlags: true,
			CgroupsPerQOSFatal: true, WinDSRGate: true}},
		{"1.21.14", Kubernetes{Supported: true, DualStack: true, CRIv1alpha2: true, DockerFlags: true,
			CgroupsPerQOSFatal: true, WinDSRGate: true}},
		{"1.23.17", Kubernetes{Supported: true, DualStack: true, TaintsField: true, EmptyResolvConf: true, CRIv1: true,
			CRIv1alpha2: true, DockerFlags: true,
			CgroupsPerQOSFatal: true, LogRunner: true, WinDSRGate: true}},
		{"1.24.17", Kubernetes{CredentialProviders: "v1beta1", Supported: true, DualStack: true, TaintsField: true,
			EmptyResolvConf: true, CRIv1: true, CRIv1alpha2: true, CgroupsPerQOSFatal: true, LogRunner: true,
			WinDSRGate: true}},
		{"1.26.15", Kubernetes{CredentialProviders: "v1",
			Supported: true, DualStack: true, TaintsField: true, EmptyResolvConf: true, CRIv1: true,
			CgroupsPerQOSFatal: true,
			LogRunner:          true, WinDSRGate: true}},
		{"v1.27.0", Kubernetes{CredentialProviders: "v1",
			Supported: true, DualStack: true, RuntimeEndpointField: true, TaintsField: true,
			EmptyResolvConf: true, CRIv1: true, CgroupsPerQOSFatal: true,
			LogRunner: true, WinDSRGate: true}},
		{"1.31.0", Kubernetes{CredentialProviders: "v1", ProviderByLookPath: true,
			Supported: true, DualStack: true, CloudDualStack: true, RuntimeEndpointField: true,
			ConfigDropIns: true, JoinConfigV1Beta4: true, TaintsField: true, EmptyResolvConf: true, CRIv1: true,
			LogRunner: true, WinDSRGate: true}},
		{"1.36.3", Kubernetes{TokensOfNodes: true, CredentialProviders: "v1", ProviderByLookPath: true,
			Supported: true, DualStack: true, CloudDualStack: true, CgroupV1Fails: true,
			RuntimeEndpointField: true, ConfigDropIns: true, JoinConfigV1Beta4: true, TaintsField: true, EmptyResolvConf: true,
			CRIv1: true, LogRunner: true, LogRunnerRotationFlags: true}},
		{"1.38.0", Kubernetes{TokensOfNodes: true, CredentialProviders: "v1", ProviderByLookPath: true,
			Supported: true, DualStack: true, CloudDualStack: true, CgroupV1Fails: true,
			RuntimeEndpointField: true, ConfigDropIns: true, JoinConfigV1Beta4: true, TaintsField: true, EmptyResolvConf: true,
			CRIv1: true, LogRunner: true, LogRunnerRotationFlags: true,
			Assumed: "Kubernetes 1.38 is newer than the version tables of this nodejoin, which treats it as 1.37"}},
	} {
		have, err := Kubelet(c.version)
		if err != nil || have != c.want {
			t.Errorf("%s: have %+v, %v\nwant %+v", c.version, have, err, c.want)
		}
	}
	for minor := uint64(20); minor <= kubernetesNewest.minor; minor++ {
		version := fmt.Sprintf("1.%d.0", minor)
		have, err := Kubelet(version)
		g := CheckGate("IPv6DualStack", true, version)
		if err != nil || !have.DualStack || have.DualStackGate != (g.Accepted() && !g.Default) {
			t.Errorf("%s: dual stack %v, with its gate %v, but the table of gates says %+v (%v)", version, have.DualStack,
				have.DualStackGate, g, err)
		}
	}
	if _, err := Kubelet("1.36"); err == nil {
		t.Error("1.36 is not a complete version")
	}
}

func TestContainerd(t *testing.T) {
	for _, c := range []struct {
		version string
		want    Containerd
	}{
		{"1.3.9", Containerd{Schema: 2, CRIv1alpha2: true}},
		{"1.4.13", Containerd{Supported: true, CRIv1alpha2: true, Schema: 2}},
		{"1.5.18", Containerd{Supported: true, CRIv1alpha2: true, ConfigPath: true, Schema: 2}},
		{"1.6.0", Containerd{Supported: true, CRIv1: true, CRIv1alpha2: true, ConfigPath: true, Schema: 2}},
		{"1.7.28", Containerd{Supported: true, CRIv1: true, CRIv1alpha2: true, ConfigPath: true, Schema: 2}},
		{"2.0.0", Containerd{Supported: true, CRIv1: true, ConfigPath: true, Schema: 3}},
		{"2.1.0", Containerd{Supported: true, CRIv1: true, ConfigPath: true, Schema: 3, BinDirs: true,
			HeaderForTokens: true}},
	} {
		have, err := LookupContainerd(c.version)
		if err != nil || have != c.want {
			t.Errorf("%s: have %+v, %v, want %+v", c.version, have, err, c.want)
		}
	}
	if have, _ := LookupContainerd("3.0.0"); have.Assumed == "" {
		t.Error("3.0.0 is newer than the table, but is not reported as newer")
	}
}

func TestTested(t *testing.T) {
	for _, c := range []struct {
		kubernetes, containerd string
		ok, known              bool
	}{
		{"1.36.3", "2.2.1", true, true},
		{"1.36.3", "2.1.9", false, true},
		{"1.36.3", "1.7.28", false, true},
		{"1.36.3", "2.4.0", true, true}, // newer than the whole row
		{"1.35.0", "1.7.27", false, true},
		{"1.35.0", "1.7.28", true, true},
		{"1.20.0", "1.7.28", false, false},
		{"1.36", "2.2.1", false, false},
		{"1.36.0", "x", false, false},
	} {
		ok, known, want := Tested(c.kubernetes, c.containerd)
		if ok != c.ok || known != c.known || known && len(want) == 0 {
			t.Errorf("%s with %s: have %v, %v, %v", c.kubernetes, c.containerd, ok, known, want)
		}
	}
}

func TestBuilds(t *testing.T) {
	for _, build := range []string{"", "20348", "10.0", "10.0.x", "10.0.-1", "11.0.20348", "10.0.20348.1.1",
		"10.0.20348.x"} {
		if ValidBuild(build) {
			t.Errorf("%q is not a build", build)
		}
	}
	if !ValidBuild(MinBuild()) {
		t.Errorf("the lowest build %q is not a build", MinBuild())
	}
	for _, r := range releases {
		build := "10.0." + strconv.Itoa(r.Number)
		if v := CheckPause(PauseImage("windows", build), build); v.Status != OK && r.Channel != Annual {
			t.Errorf("the default pause image of %s: %+v", r.Name, v)
		}
		if v := CheckPause(PauseImage("windows", ""), build); v.Status != OK && r.Retired == "" {
			t.Errorf("the pause image for any build does not run on %s: %+v", r.Name, v)
		}
	}
}

func TestArtifact(t *testing.T) {
	for _, c := range []struct{ name, version, os, arch, want string }{
		{KubernetesNode, "1.36.3", "windows", "amd64", "https://dl.k8s.io/v1.36.3/kubernetes-node-windows-amd64.tar.gz"},
		{KubernetesNode, "v1.36.3", "linux", "arm64", "https://dl.k8s.io/v1.36.3/kubernetes-node-linux-arm64.tar.gz"},
		{ContainerdName, "2.2.1", "windows", "amd64",
			"https://github.com/containerd/containerd/releases/download/v2.2.1/containerd-2.2.1-windows-amd64.tar.gz"},
		{CNIPlugins, "1.9.1", "windows", "amd64",
			"https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-windows-amd64-v1.9.1.tgz"},
		{FlannelCNI, "1.9.1-flannel1", "windows", "amd64",
			"https://github.com/flannel-io/cni-plugin/releases/download/v1.9.1-flannel1/flannel-amd64.exe"},
		{Flanneld, "0.28.9", "windows", "amd64",
			"https://github.com/flannel-io/flannel/releases/download/v0.28.9/flanneld.exe"},
		{Flanneld, "0.28.9", "linux", "arm64",
			"https://github.com/flannel-io/flannel/releases/download/v0.28.9/flanneld-arm64"},
		{Flanneld, "0.28.9", "windows", "arm64", ""},
		{"other", "1.0.0", "windows", "amd64", ""},
	} {
		file, address := Artifact(c.name, c.version, c.os, c.arch)
		if address != c.want || c.want != "" && path.Base(c.want) != file || c.want == "" && file != "" {
			t.Errorf("%s %s: have %q, %q, want %q", c.name, c.version, file, address, c.want)
		}
		if _, err := url.Parse(address); err != nil {
			t.Error(err)
		}
	}
	for _, name := range ArtifactNames() {
		file, _ := Artifact(name, "1.2.3", "windows", "amd64")
		if have := strings.Contains(file, "1.2.3"); have != VersionInFileName(name) {
			t.Errorf("%s: VersionInFileName = %v, the file is %s", name, !have, file)
		}
	}
}
