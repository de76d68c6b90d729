package templates

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "update the golden files")

type renderer interface{ Render() (string, error) }

// ref is a reference as steps.Ref writes it.
func ref(name string) string { return "\x00" + name + "\x00" }

var (
	windowsContainerd = Containerd{Schema: 3, BinDirs: true, Root: `C:\ProgramData\containerd\root`,
		State:   `C:\ProgramData\containerd\state`,
		Address: `\\.\pipe\containerd-containerd`, Pause: "registry.k8s.io/pause:3.10.2", CNIBin: `C:\opt\cni\bin`,
		CNIConf: `C:\etc\cni\net.d`}
	windowsKubelet = Kubelet{ClientCAFile: `C:\etc\kubernetes\pki\ca.crt`,
		RuntimeEndpoint: "npipe:////./pipe/containerd-containerd",
		ClusterDNS:      "10.96.0.10", ClusterDomain: "cluster.local", HealthzPort: 10248, EmptyResolvConf: true}
	overlayProxy = KubeProxy{Kubeconfig: `C:\etc\kubernetes\kube-proxy.conf`, NodeName: "win-1",
		BindAddress: ref("fact.management_ip"),
		ClusterCIDR: "10.244.0.0/16", NetworkName: "flannel.4096", SourceVIP: ref("source_vip.address"), HealthzPort: 10256,
		MetricsPort: 10249}
	flannelCNI = CNI{Network: "flannel.4096", Delegate: "win-overlay", SubnetFile: `C:\run\flannel\subnet.env`,
		DataDir: `C:\var\lib\cni\flannel`,
		PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12", NodeIP: ref("fact.management_ip")}
)

func linuxContainerd(schema int, binDirs bool, systemd string) ContainerdLinux {
	return ContainerdLinux{Schema: schema, BinDirs: binDirs,
		ConfigPath: map[bool]string{true: "/etc/containerd/certs.d"}[binDirs], Root: "/var/lib/containerd",
		State: "/run/containerd", Address: "/run/containerd/containerd.sock",
		Imports: "/etc/containerd/conf.d/*.toml", Pause: "registry.k8s.io/pause:3.10.2", CNIBin: "/opt/cni/bin",
		CNIConf: "/etc/cni/net.d",
		Runc:    "/usr/local/bin/runc", SystemdCgroup: systemd}
}

func TestGolden(t *testing.T) {
	with := func(c Containerd, schema int, binDirs bool) Containerd {
		c.Schema, c.BinDirs = schema, binDirs
		return c
	}
	full := windowsKubelet
	full.MaxPods, full.Taints = 110, []Taint{{"os", "windows", "NoSchedule"}, {"dedicated", "", "NoExecute"}}
	old := overlayProxy
	old.SourceVIP, old.BindAddress = "10.244.3.2", "192.0.2.10"
	delegate := func(network, delegate string, dsr bool) CNI {
		c := flannelCNI
		c.Network, c.Delegate, c.LoopbackDSR, c.NodeSubnet = network, delegate, dsr, ref("fact.subnet")
		return c
	}
	registries := func(c Containerd) Containerd {
		c.ConfigPath = `C:\Program Files\containerd\certs.d`
		return c
	}
	docker := func(c CNI) CNI {
		c.HNSv1 = true
		return c
	}
	before, gated := full, overlayProxy
	before.RuntimeEndpoint, before.EmptyResolvConf, before.Taints = "", false, nil
	gated.Gates = []string{"WinOverlay"}
	for name, r := range map[string]renderer{
		"flannel.manifest.yaml": Flannel{Image: "flannel:1", CNIImage: "plugin:1",
			NetConf: "{\n  \"Network\": \"10.244.0.0/16\"\n}\n"},
		"kube-proxy.manifest.yaml": KubeProxySelector{},
		"bootstrap.manifest.yaml":  Bootstrap{Group: "system:bootstrappers:kubeadm:default-node-token"},
		"runtime-classes.manifest.yaml": RuntimeClasses{APIVersion: "node.k8s.io/v1", Handler: "runhcs-wcow-process",
			Classes: []RuntimeClass{
				{Name: "windows-2019", Arch: "amd64", Build: "10.0.17763"},
				{Name: "windows-2022", Arch: "amd64", Build: "10.0.20348",
					Tolerations: []Taint{{"os", "windows", "NoSchedule"}, {"dedicated", "", "NoExecute"}}}}},
		"kubelet-1.19.yaml":          before,
		"kube-proxy-1.19.yaml":       gated,
		"cni-v1.conflist":            docker(flannelCNI),
		"cni-v1-win-bridge.conflist": docker(delegate("cbr0", "win-bridge", false)),
		"containerd-1.5.toml":        registries(with(windowsContainerd, 2, false)),
		"containerd-2.3.toml":        registries(with(windowsContainerd, 4, true)),
		"hosts.toml": RegistryHosts{Registry: "docker.io",
			Mirrors: []string{"https://one.example", "https://two.example:5000", "https://three.example/v2/hub",
				"https://four.example/mirror/v2/"},
			CA: `C:\Program Files\containerd\certs.d\docker.io\ca.crt`},
		"hosts-ca.toml": RegistryHosts{Registry: "registry.example:5000",
			CA: `C:\Program Files\containerd\certs.d\registry.example5000\ca.crt`},
		"hosts-ca-docker.toml": RegistryHosts{Registry: "docker.io",
			CA: `C:\Program Files\containerd\certs.d\docker.io\ca.crt`},
		"crictl.yaml":                  Crictl{Endpoint: "npipe:////./pipe/containerd-containerd"},
		"containerd-1.7.toml":          with(windowsContainerd, 2, false),
		"containerd-2.0.toml":          with(windowsContainerd, 3, false),
		"containerd-2.2.toml":          windowsContainerd,
		"kubelet.yaml":                 windowsKubelet,
		"kubelet-full.yaml":            full,
		"kube-proxy.yaml":              overlayProxy,
		"kube-proxy-1.30.yaml":         old,
		"net-conf.json":                NetConf{Network: "10.244.0.0/16", Backend: "vxlan", VNI: 4096, Port: 4789},
		"net-conf-host-gw.json":        NetConf{Network: "10.244.0.0/16", Backend: "host-gw", Name: "cbr0"},
		"cni-win-overlay-dsr.conflist": delegate("flannel.4096", "win-overlay", true),
		"cni-win-bridge.conflist":      delegate("cbr0", "win-bridge", false),
		"cni-sdnoverlay.conflist":      delegate("flannel.4096", "sdnoverlay", false),
		"cni-sdnbridge.conflist":       delegate("cbr0", "sdnbridge", true),
		"cni.conflist":                 flannelCNI,
		"containerd-linux-1.7.toml":    linuxContainerd(2, false, "false"),
		"containerd-linux-2.0.toml":    linuxContainerd(3, false, "true"),
		"containerd-linux-2.2.toml":    linuxContainerd(3, true, ref("fact.systemd_cgroup")),
		"containerd-linux-2.3.toml":    linuxContainerd(4, true, ref("fact.systemd_cgroup")),
		"kubelet-linux.yaml": KubeletLinux{ClientCAFile: "/etc/kubernetes/pki/ca.crt",
			RuntimeEndpoint: "unix:///run/containerd/containerd.sock", ClusterDNS: "10.96.0.10",
			ClusterDomain: "cluster.local", CgroupDriver: ref("fact.cgroup_driver"), ResolvConf: "/etc/resolv.conf",
			HealthzPort: 10248, MaxPods: 50, Taints: full.Taints},
		"kube-proxy-linux.yaml": KubeProxyLinux{Kubeconfig: "/etc/kubernetes/kube-proxy.conf", NodeName: "lin-1",
			BindAddress: "192.0.2.12", ClusterCIDR: "10.244.0.0/16",
			HealthzPort: 10256, MetricsPort: 10249},
		"cni-linux.conflist": CNILinux{SubnetFile: "/run/flannel/subnet.env", DataDir: "/var/lib/cni/flannel"},
	} {
		t.Run(name, func(t *testing.T) {
			have, err := r.Render()
			if err != nil {
				t.Fatal(err)
			}
			// With NUL, git would treat the golden as a binary file.
			have = strings.NewReplacer("\x00", "␀").Replace(have)
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), have); d != "" {
				t.Errorf("golden differs (-want +have), rewrite with -update:\n%s", d)
			}
			var v map[string]any
			switch filepath.Ext(name) {
			case ".json", ".conflist":
				err = json.Unmarshal([]byte(have), &v)
			case ".yaml":
				for _, doc := range strings.Split(have, "\n---\n") {
					err = errors.Join(err, yaml.UnmarshalStrict([]byte(doc), &v))
				}
			}
			if err != nil {
				t.Errorf("does not parse: %v", err)
			}
		})
	}
}

func TestUnknownSchema(t *testing.T) {
	if _, err := (Containerd{Schema: 5}).Render(); err == nil {
		t.Error("schema 5 was rendered")
	}
}

// Quoted text reads back unchanged, with references kept byte for byte.
func TestQuoteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching("[a-zA-Z0-9'\"\\\\:{}<>&# é\\t-]{0,12}").Draw(t, "text")
		tail := rapid.StringMatching("['\"\\\\ a]{0,4}").Draw(t, "tail")
		name := rapid.StringMatching(`[a-z_]{1,8}\.[a-z_]{1,8}`).Draw(t, "ref")
		const stand = "R" // the value that the reference resolves to
		for format, f := range map[string]struct {
			quote func(string) (string, error)
			parse func([]byte, any) error
		}{
			"json": {quoteJSON, json.Unmarshal},
			"yaml": {quoteYAML, func(b []byte, v any) error { return yaml.Unmarshal(b, v) }},
		} {
			in := text + ref(name) + tail
			have, err := f.quote(in)
			if err != nil {
				if format == "yaml" && strings.Contains(text, "\t") {
					continue
				}
				t.Fatalf("%s: %v", format, err)
			}
			if !strings.Contains(have, ref(name)) {
				t.Fatalf("%s: %q lost the reference", format, have)
			}
			var back string
			if err := f.parse([]byte(strings.ReplaceAll(have, ref(name), stand)), &back); err != nil {
				t.Fatalf("%s: %q: %v", format, have, err)
			}
			if want := text + stand + tail; back != want {
				t.Fatalf("%s: %q reads back as %q, want %q", format, have, back, want)
			}
		}
	})
}

func TestQuoteTOML(t *testing.T) {
	for in, want := range map[string]string{
		`C:\k`:                     `'C:\k'`,
		`it's`:                     `"it's"`,
		"a\tb":                     `"a\tb"`,
		`\` + ref("fact.x"):        `'\` + ref("fact.x") + `'`,
		`'` + ref("fact.x") + `\"`: `"'` + ref("fact.x") + `\\\""`,
	} {
		if have, err := quoteTOML(in); err != nil || have != want {
			t.Errorf("quoteTOML(%q) = %q, %v; want %q", in, have, err, want)
		}
	}
}

func TestRefusedValues(t *testing.T) {
	for _, s := range []string{"a\nb", "\x00half"} {
		k := windowsKubelet
		k.ClusterDomain = s
		if text, err := k.Render(); err == nil {
			t.Errorf("rendered %q:\n%s", s, text)
		}
	}
}
