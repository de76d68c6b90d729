package kinds_test

import (
	"encoding/pem"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

// scenario is a machine on which before was applied and drift was done, to be
// brought to list.
type scenario struct {
	name   string
	os     string
	before []steps.Spec
	drift  func(t *testing.T, h host.Host)
	list   []steps.Spec
	verify func(t *testing.T, h host.Host)
	boots  bool // an apply of list boots the machine
}

func (s scenario) open(t *testing.T, a steps.Artifacts) host.Host {
	t.Helper()
	h := stepstest.OpenHost(t, s.os)
	if s.before != nil {
		stepstest.Applied(t, h, a, s.before)
	}
	if s.drift != nil {
		s.drift(t, h)
	}
	return h
}

func scenarios(t *testing.T) ([]scenario, stepstest.Memory) {
	exe1, exe2 := []byte("program one"), []byte("program two")
	tgz1 := stepstest.Tarball(t, "bin/containerd.exe", "c1", "bin/ctr.exe", "t1", "bin/doc.txt", "d")
	tgz2 := stepstest.Tarball(t, "bin/containerd.exe", "c2", "bin/ctr.exe", "t1", "bin/new.exe", "n")
	art := stepstest.Memory{"http://m/one": exe1, "http://m/two": exe2, "http://m/1.tgz": tgz1, "http://m/2.tgz": tgz2}
	binary := func(b []byte, url string) steps.Spec {
		return stepstest.Spec("binary", "exe",
			&kinds.Binary{Source: steps.Source{URL: url, SHA256: stepstest.Hex256(b)}, Path: `C:\k\worker.exe`,
				Services: []string{"worker"}})
	}
	binary512 := func(b []byte, url string) steps.Spec {
		return stepstest.Spec("binary", "exe",
			&kinds.Binary{Source: steps.Source{URL: url, SHA512: stepstest.Hex512(b)}, Path: `C:\k\tool.exe`})
	}
	archive := func(b []byte, url string) steps.Spec {
		return stepstest.Spec("archive", "unpack",
			&kinds.Archive{Source: steps.Source{URL: url, SHA256: stepstest.Hex256(b)}, To: `C:\c`, Strip: 1,
				Include: []string{"bin/*.exe"}, Services: []string{"containerd"}})
	}
	containerd := func(args ...string) steps.Spec {
		s := stepstest.Service("containerd", `C:\c\containerd.exe`, args...)
		s.Watch = []string{`C:\c\config.toml`}
		return stepstest.Spec("service", "containerd", s)
	}
	dependent := stepstest.Service("app", `C:\k\app.exe`)
	dependent.DependsOn = []string{"containerd"}
	config := func(s string) steps.Spec {
		return stepstest.Spec("file", "config", &kinds.File{Path: `C:\c\config.toml`, Content: s})
	}
	runtime := func(tgz []byte, url, conf string, args ...string) []steps.Spec {
		return []steps.Spec{archive(tgz, url), config(conf),
			stepstest.Spec("file", "app_exe", &kinds.File{Path: `C:\k\app.exe`, Content: "app"}), containerd(args...),
			stepstest.Spec("pipe_ready", "ready", &kinds.PipeReady{Address: `\\.\pipe\containerd-containerd`,
				GRPCMethod: "/runtime.v1.RuntimeService/Version", Service: "containerd"}),
			stepstest.Spec("service", "app", dependent)}
	}
	running := func(names ...string) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			for _, n := range names {
				if s, err := h.Service(t.Context(), n); err != nil || s.State != host.ServiceRunning {
					t.Errorf("service %s: %q, %v", n, s.State, err)
				}
			}
		}
	}
	content := func(path, want string) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			if have := stepstest.Text(t, h, path); have != want {
				t.Errorf("%s holds %q, want %q", path, have, want)
			}
		}
	}
	stopped := stepstest.Service("idle", `C:\k\idle.exe`)
	stopped.State, stopped.Start = host.ServiceStopped, host.StartManual
	ca := stepstest.TestCA(t)
	kubeconfig := stepstest.Spec("kubeconfig", "conf",
		&kinds.Kubeconfig{Path: `C:\k\x.conf`, Server: "https://192.0.2.1:6443", CA: ca, User: "u",
			Token: "abcdef.0123456789abcdef"})
	ofWorker := stepstest.Service("app", `C:\k\app.exe`)
	ofWorker.DependsOn = []string{"worker"}
	bootstrap := func(token string) []steps.Spec {
		return []steps.Spec{
			stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\worker.exe`, Content: "w"}),
			stepstest.Spec("file", "app_exe", &kinds.File{Path: `C:\k\app.exe`, Content: "app"}),
			stepstest.Spec("kubeconfig", "boot", &kinds.Kubeconfig{Path: `C:\k\boot.conf`, Server: gateServer, CA: ca,
				User: "b", Token: token, Services: []string{"worker"}}),
			stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\worker.exe`)),
			stepstest.Spec("service", "app", ofWorker),
		}
	}
	foreign := stepstest.Spec("kubeconfig", "boot", &kinds.Kubeconfig{Path: `C:\k\boot.conf`, Server: gateServer,
		CA: ca, User: "b", Token: "aaaaaa.0123456789abcdef",
		Backup: []string{`C:\k\kubelet.conf`, `C:\k\pki\current.pem`, `C:\k\none`}})
	worker := func(change func(*kinds.Service)) []steps.Spec {
		s := stepstest.Service("worker", `C:\k\worker.exe`)
		change(s)
		return []steps.Spec{stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\worker.exe`, Content: "w"}),
			stepstest.Spec("service", "worker", s)}
	}
	valued := func(v string) []steps.Spec {
		return worker(func(s *kinds.Service) { s.RestartOn = []string{"uid", v} })
	}
	networked := func(name string) []steps.Spec {
		return worker(func(s *kinds.Service) { s.HNSNetworks = []string{name} })
	}
	vip := func(subnet string) steps.Spec {
		return stepstest.Spec("source_vip", "vip", &kinds.SourceVIP{Dir: `C:\var\lib\cni\networks`,
			Network: "flannel.4096", Subnet: subnet})
	}
	nssm := func(log string) *kinds.Service {
		s := stepstest.Service("worker", `C:\k\nssm.exe`)
		s.Parameters = []kinds.ServiceParameter{{Name: "Application", Type: "expand_string", String: `C:\k\worker.exe`},
			{Name: "AppStderr", Type: "expand_string", String: log}, {Name: `AppExit\`, Type: "string", String: "Restart"},
			{Name: "AppPriority", Type: "dword", Number: 0x8000}, {Name: "AppEnvironmentExtra", Type: "multi_string",
				Strings: []string{"A=b"}}}
		return s
	}
	wrapper := func(log string) []steps.Spec {
		return []steps.Spec{stepstest.Spec("file", "nssm_exe", &kinds.File{Path: `C:\k\nssm.exe`, Content: "nssm"}),
			stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\worker.exe`, Content: "w"}),
			stepstest.Spec("service", "worker", nssm(log))}
	}
	told := func(log string) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			running("worker")(t, h)
			have, err := h.RegistryValue(t.Context(), `HKLM\SYSTEM\CurrentControlSet\Services\worker\Parameters`, "AppStderr")
			if err != nil || have.String != log {
				t.Errorf("the log is %q, %v; want %q", have.String, err, log)
			}
		}
	}
	rule := &kinds.FirewallRule{FirewallRule: host.FirewallRule{Name: "nodejoin-kubelet", Direction: "in",
		Action: "allow", Protocol: "tcp", Ports: "10250", Enabled: true}}
	some := &kinds.FirewallRule{FirewallRule: rule.FirewallRule}
	some.Remote = "192.0.2.1, 10.0.0.0/255.0.0.0"
	authority := stepstest.TestAuthority(t)
	trusted := stepstest.Spec("trusted_ca", "ca",
		&kinds.TrustedCA{Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}))})
	trusts := func(want bool) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			if have, err := h.TrustedCA(t.Context(), authority.Raw); err != nil || have != want {
				t.Errorf("trusted: %v, %v; want %v", have, err, want)
			}
		}
	}
	sysctl := func(name, value string) steps.Spec {
		return stepstest.Spec("sysctl", "sysctl", &kinds.Sysctl{Name: name, Value: value})
	}
	module := func(name string) steps.Spec {
		return stepstest.Spec("kernel_module", "module", &kinds.KernelModule{Name: name})
	}
	parameter := func(name, want string) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			if have, err := h.Sysctl(t.Context(), name); err != nil || have != want {
				t.Errorf("%s = %q, %v; want %q", name, have, err, want)
			}
		}
	}
	dynamic := func(first uint16) steps.Spec {
		return stepstest.Spec("dynamic_ports", "ports", &kinds.DynamicPorts{Protocol: "tcp", First: first, Last: 65535})
	}
	outgoing := func(want uint16) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			if have, err := h.DynamicPorts(t.Context(), "tcp"); err != nil || have.First != want || have.Last != 65535 {
				t.Errorf("dynamic ports are %s, %v", have, err)
			}
		}
	}
	nodePorts := host.PortRange{Protocol: "tcp", First: 30000, Last: 32767}
	reserve := []steps.Spec{stepstest.Spec("reserved_ports", "node_ports",
		&kinds.ReservedPorts{Protocol: "tcp", First: 30000, Last: 32767}),
		stepstest.Spec("reserved_ports", "dns", &kinds.ReservedPorts{Protocol: "udp", First: 65330, Last: 65330})}
	reserved := func(t *testing.T, h host.Host) {
		for _, r := range []host.PortRange{nodePorts, {Protocol: "udp", First: 65330, Last: 65330}} {
			if have, err := h.PortsReserved(t.Context(), r); err != nil || !have {
				t.Errorf("%s are reserved: %v, %v", r, have, err)
			}
		}
	}
	dword := func(n uint64) steps.Spec {
		return stepstest.Spec("registry", "reg", &kinds.Registry{Key: `HKLM\SOFTWARE\nodejoin`, Name: "Flags",
			RegistryValue: host.RegistryValue{Type: "dword", Number: n}})
	}
	counted := func() []steps.Spec {
		return []steps.Spec{stepstest.Spec("registry", "flags", &kinds.Registry{Key: `HKLM\SOFTWARE\nodejoin`,
			Name: "Flags", RegistryValue: host.RegistryValue{Type: "dword", Number: 1}, Reboot: "the flags"})}
	}
	env := func(v string) []steps.Spec {
		return []steps.Spec{stepstest.Spec("env", "env", &kinds.MachineEnv{Name: "K", Value: v})}
	}

	return []scenario{
		{name: "directory",
			list: []steps.Spec{stepstest.Spec("directory", "d", &kinds.Directory{Path: `C:\a\b`, Access: host.AccessPrivate})}},
		{name: "file fresh", list: []steps.Spec{config("x")}, verify: content(`C:\c\config.toml`, "x")},
		{name: "file drifted", before: []steps.Spec{config("x")}, drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\c\config.toml`, "edited")
		},
			list: []steps.Spec{config("x")}, verify: content(`C:\c\config.toml`, "x")},
		{name: "file made private", before: []steps.Spec{config("x")},
			list: []steps.Spec{stepstest.Spec("file", "config", &kinds.File{Path: `C:\c\config.toml`, Content: "x",
				Access: host.AccessPrivate, Sensitive: true})}},
		{name: "empty file", list: []steps.Spec{config("")}},
		{name: "file removed", before: []steps.Spec{config("x")},
			list: []steps.Spec{stepstest.Spec("file", "config", &kinds.File{Path: `C:\c\config.toml`, Absent: true})}},
		{name: "linux program", os: "linux",
			list: []steps.Spec{stepstest.Spec("file", "f", &kinds.File{Path: "/opt/x.sh", Content: "#!",
				Access: host.AccessProgram})}},
		{name: "linux access drifted", os: "linux",
			before: []steps.Spec{stepstest.Spec("file", "f", &kinds.File{Path: "/opt/x", Content: "#!"})},
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.SetAccess(t.Context(), "/opt/x", host.AccessPrivate))
			},
			list: []steps.Spec{stepstest.Spec("file", "f", &kinds.File{Path: "/opt/x", Content: "#!"})}},
		{name: "binary fresh", list: []steps.Spec{binary(exe1, "http://m/one")},
			verify: content(`C:\k\worker.exe`, "program one")},
		{name: "binary by sha512", list: []steps.Spec{binary512(exe1, "http://m/one")}},
		{name: "binary by sha512 replaced", before: []steps.Spec{binary512(exe1, "http://m/one")},
			list:   []steps.Spec{binary512(exe2, "http://m/two")},
			verify: content(`C:\k\tool.exe`, "program two")},
		{name: "running binary replaced",
			before: []steps.Spec{binary(exe1, "http://m/one"),
				stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\worker.exe`))},
			list: []steps.Spec{binary(exe2, "http://m/two"),
				stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\worker.exe`))},
			verify: running("worker")},
		{name: "archive fresh", list: []steps.Spec{archive(tgz1, "http://m/1.tgz")},
			verify: content(`C:\c\containerd.exe`, "c1")},
		{name: "archive drifted", before: []steps.Spec{archive(tgz1, "http://m/1.tgz")},
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.Remove(t.Context(), `C:\c\ctr.exe`))
				stepstest.Put(t, h, `C:\c\containerd.exe`, "x")
			},
			list: []steps.Spec{archive(tgz1, "http://m/1.tgz")}, verify: content(`C:\c\containerd.exe`, "c1")},
		{name: "runtime fresh", list: runtime(tgz1, "http://m/1.tgz", "v1"), verify: running("containerd", "app")},
		{name: "runtime upgraded", before: runtime(tgz1, "http://m/1.tgz", "v1"),
			list: runtime(tgz2, "http://m/2.tgz", "v2", "--debug"), verify: running("containerd", "app")},
		{name: "runtime reconfigured", before: runtime(tgz1, "http://m/1.tgz", "v1"),
			list: runtime(tgz1, "http://m/1.tgz", "v2"), verify: running("containerd", "app")},
		{name: "runtime stopped", before: runtime(tgz1, "http://m/1.tgz", "v1"),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.StopService(t.Context(), "app"))
				stepstest.Must(t, h.StopService(t.Context(), "containerd"))
			}, list: runtime(tgz1, "http://m/1.tgz", "v1"), verify: running("containerd", "app")},
		{name: "service kept stopped",
			list: []steps.Spec{stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\idle.exe`, Content: "i"}),
				stepstest.Spec("service", "idle", stopped)}},
		{name: "service stopped",
			before: []steps.Spec{stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\idle.exe`, Content: "i"}),
				stepstest.Spec("service", "idle", stepstest.Service("idle", `C:\k\idle.exe`))},
			list: []steps.Spec{stepstest.Spec("service", "idle", stopped)}},
		{name: "service running", before: runtime(tgz1, "http://m/1.tgz", "v1"),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.StopService(t.Context(), "app"))
				stepstest.Must(t, h.StopService(t.Context(), "containerd"))
			}, list: []steps.Spec{stepstest.Spec("service_running", "run", &kinds.ServiceRunning{Name: "app"})},
			verify: running("containerd", "app")},
		{name: "registry fresh", list: []steps.Spec{dword(1)}},
		{name: "feature",
			list: []steps.Spec{stepstest.Spec("feature", "f", &kinds.Feature{Name: "Microsoft-Hyper-V"})},
			verify: func(t *testing.T, h host.Host) {
				if s, err := h.Feature(t.Context(), "microsoft-hyper-v"); err != nil || s != host.FeatureOnPending {
					t.Errorf("the feature is %q, %v", s, err)
				}
			}},
		{name: "feature that is on", list: []steps.Spec{stepstest.Spec("feature", "f", &kinds.Feature{Name: "Containers"})}},
		{name: "hns network", list: []steps.Spec{stepstest.Spec("hns_network", "n", external("Overlay", 9999))},
			verify: lasting("Overlay")},
		{name: "hns network of another type",
			before: []steps.Spec{stepstest.Spec("hns_network", "n", external("Overlay", 9999))},
			list:   []steps.Spec{stepstest.Spec("hns_network", "n", external("L2Bridge", 0))}, verify: lasting("L2Bridge")},
		{name: "hns network that was there", drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.CreateHNSNetwork(t.Context(), host.HNSNetworkConfig{Name: "external", Type: "L2Bridge",
				Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"}))
		}, list: []steps.Spec{stepstest.Spec("hns_network", "n", external("L2Bridge", 0))}, verify: lasting("L2Bridge")},
		{name: "host name", list: []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-1"})},
			verify: func(t *testing.T, h host.Host) {
				n, err := h.HostName(t.Context())
				noted, err2 := h.RebootNoted(t.Context())
				if err != nil || err2 != nil || n.Next != "node-1" || n.Now == "node-1" ||
					!slices.Equal(noted, []string{"the machine's new name node-1"}) {
					t.Errorf("the name is %+v, %v; noted %q, %v", n, err, noted, err2)
				}
			}},
		{name: "host name of linux", os: "linux",
			list: []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-1"})},
			verify: func(t *testing.T, h host.Host) {
				n, err := h.HostName(t.Context())
				noted, err2 := h.RebootNoted(t.Context())
				if err != nil || err2 != nil || n != (host.HostName{Now: "node-1", Next: "node-1"}) || len(noted) > 0 {
					t.Errorf("the name is %+v, %v; noted %q, %v", n, err, noted, err2)
				}
			}},
		{name: "host name that counts", boots: true,
			list: []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-1"}),
				stepstest.Spec("reboot", "boot", &kinds.Reboot{Policy: kinds.RebootAuto, HostName: "node-1"})},
			verify: func(t *testing.T, h host.Host) {
				if n, err := h.HostName(t.Context()); err != nil || n.Now != "node-1" || n.Next != "node-1" {
					t.Errorf("the name is %+v, %v", n, err)
				}
			}},
		{name: "host name renamed again",
			before: []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-1"})},
			list:   []steps.Spec{stepstest.Spec("host_name", "name", &kinds.HostName{Name: "node-2"})}},
		{name: "registry counted after a reboot", list: counted(), verify: func(t *testing.T, h host.Host) {
			if noted, err := h.RebootNoted(t.Context()); err != nil || !slices.Equal(noted, []string{"the flags"}) {
				t.Errorf("noted %q, %v", noted, err)
			}
		}},
		{name: "reboot", boots: true,
			list: append(counted(), stepstest.Spec("feature", "f", &kinds.Feature{Name: "Microsoft-Hyper-V"}),
				stepstest.Spec("reboot", "boot",
					&kinds.Reboot{Policy: kinds.RebootAuto, Features: []string{"Microsoft-Hyper-V"}})),
			verify: func(t *testing.T, h host.Host) {
				s, err := h.Feature(t.Context(), "Microsoft-Hyper-V")
				noted, err2 := h.RebootNoted(t.Context())
				if err != nil || err2 != nil || s != host.FeatureOn || len(noted) > 0 {
					t.Errorf("the feature is %q, %v; noted %q, %v", s, err, noted, err2)
				}
			}},
		{name: "no reboot needed",
			list: []steps.Spec{stepstest.Spec("reboot", "boot", &kinds.Reboot{Policy: kinds.RebootNever})}},
		{name: "registry drifted", before: []steps.Spec{dword(1)}, list: []steps.Spec{dword(2)}},
		{name: "registry removed", before: []steps.Spec{dword(1)},
			list: []steps.Spec{stepstest.Spec("registry", "reg", &kinds.Registry{Key: `HKLM\SOFTWARE\nodejoin`,
				Name: "Flags", Absent: true})}},
		{name: "env fresh", list: env("1")},
		{name: "env drifted", before: env("1"), list: env("2")},
		{name: "env sensitive", before: env("http://a:b@x"),
			list: []steps.Spec{stepstest.Spec("env", "env", &kinds.MachineEnv{Name: "K", Value: "http://a:c@x",
				Sensitive: true})}},
		{name: "env removed", before: env("1"),
			list: []steps.Spec{stepstest.Spec("env", "env", &kinds.MachineEnv{Name: "K", Absent: true})}},
		{name: "env file", os: "linux",
			list: []steps.Spec{stepstest.Spec("env", "a", &kinds.MachineEnv{Name: "A", Value: "1", File: "/etc/x.env"}),
				stepstest.Spec("env", "b", &kinds.MachineEnv{Name: "B", Value: "2", File: "/etc/x.env"})},
			verify: content("/etc/x.env", "A=1\nB=2\n")},
		{name: "env file drifted", os: "linux", drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, "/etc/environment", "# c\nA=0\nZ=9\nA=3")
		},
			list:   []steps.Spec{stepstest.Spec("env", "a", &kinds.MachineEnv{Name: "A", Value: "1"})},
			verify: content("/etc/environment", "# c\nA=1\nZ=9\n")},
		{name: "firewall fresh", list: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)}},
		{name: "firewall drifted", before: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)},
			drift: func(t *testing.T, h host.Host) {
				r := rule.FirewallRule
				r.Ports, r.Enabled = "1", false
				stepstest.Must(t, h.PutFirewallRule(t.Context(), r))
			},
			list: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)}},
		{name: "firewall for some", before: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)},
			list: []steps.Spec{stepstest.Spec("firewall_rule", "fw", some)}},
		{name: "firewall removed", before: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)},
			list: []steps.Spec{stepstest.Spec("firewall_rule", "fw",
				&kinds.FirewallRule{FirewallRule: host.FirewallRule{Name: "nodejoin-kubelet"}, Absent: true})}},
		{name: "kubeconfig fresh", list: []steps.Spec{kubeconfig}},
		{name: "kubeconfig drifted", before: []steps.Spec{kubeconfig}, drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\k\x.conf`, "nonsense: [")
		}, list: []steps.Spec{kubeconfig}},
		{name: "bootstrap kubeconfig of a running service", before: bootstrap("aaaaaa.0123456789abcdef"),
			list: bootstrap("bbbbbb.0123456789abcdef"), verify: running("worker", "app")},
		{name: "bootstrap kubeconfig, foreign credentials", drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\k\kubelet.conf`, "theirs")
			stepstest.Put(t, h, `C:\k\pki\current.pem`, "theirs too")
		}, list: []steps.Spec{foreign}, verify: func(t *testing.T, h host.Host) {
			content(`C:\k\kubelet.conf.nodejoin-backup`, "theirs")(t, h)
			content(`C:\k\pki\current.pem.nodejoin-backup`, "theirs too")(t, h)
		}},
		{name: "service for other values", before: valued("a"), list: valued("b"), verify: running("worker")},
		{name: "service makes another network", before: networked("net-a"), drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.(*sandbox.Host).PutHNSNetwork(t.Context(),
				host.HNSNetwork{ID: "1", Name: "net-a", Type: "Overlay"}))
			stepstest.Must(t, h.(*sandbox.Host).PutHNSNetwork(t.Context(),
				host.HNSNetwork{ID: "2", Name: "theirs", Type: "NAT"}))
		}, list: networked("net-b"), verify: func(t *testing.T, h host.Host) {
			running("worker")(t, h)
			if _, err := h.HNSNetwork(t.Context(), "net-a"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the former network: %v", err)
			}
			if _, err := h.HNSNetwork(t.Context(), "theirs"); err != nil {
				t.Error(err)
			}
		}},
		{name: "service restarted by hand with an edited file", before: runtime(tgz1, "http://m/1.tgz", "v1"),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Put(t, h, `C:\c\config.toml`, "edited")
				for _, err := range []error{h.StopService(t.Context(), "app"),
					h.StopService(t.Context(), "containerd"), h.StartService(t.Context(), "containerd"),
					h.StartService(t.Context(), "app")} {
					stepstest.Must(t, err)
				}
			}, list: runtime(tgz1, "http://m/1.tgz", "v1"), verify: func(t *testing.T, h host.Host) {
				running("containerd", "app")(t, h)
				rec := stepstest.LoadRecord(t, h)
				for _, name := range []string{"containerd", "app"} {
					if svc, err := h.Service(t.Context(), name); err != nil || name == "containerd" &&
						svc.PID != rec.Starts[name].PID {
						t.Errorf("%s runs as process %d, %v; nodejoin started %+v: it still runs from the file that "+
							"was edited", name, svc.PID, err, rec.Starts[name])
					}
				}
			}},
		{name: "kubeadm join fresh", before: kubeadm(ca)[:4], list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, kubelet.conf gone", before: kubeadm(ca),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.Remove(t.Context(), `C:\etc\kubernetes\kubelet.conf`))
			}, list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, configuration gone", before: kubeadm(ca),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.Remove(t.Context(), `C:\var\lib\kubelet\config.yaml`))
			}, list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, configuration open to others", before: kubeadm(ca), drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.SetAccess(t.Context(), `C:\var\lib\kubelet\config.yaml`, host.AccessDefault))
		}, list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, another cluster", before: kubeadm(stepstest.TestCA(t)), list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, token left", before: kubeadm(ca),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Put(t, h, `C:\etc\kubernetes\nodejoin-kubeadm.yaml`, "tlsBootstrapToken: x")
			}, list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, other flags", before: kubeadm(ca),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Put(t, h, `C:\var\lib\kubelet\kubeadm-flags.env`,
					`KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=npipe:////./pipe/containerd-containerd --v=3 --config=other"`)
			},
			list: kubeadm(ca)[4:], verify: joined},
		{name: "credentials gate", drift: func(t *testing.T, h host.Host) {
			cert, key := stepstest.TestCert(t, "system:node:win-1", time.Hour)
			stepstest.Put(t, h, gatePEM, cert+key)
			stepstest.Put(t, h, gateConf, clientKubeconfig(gateServer, ca, gatePEM))
		}, list: []steps.Spec{stepstest.Spec("credentials_ready", "g", credentialsGate(ca))}},
		{name: "trusted authority", list: []steps.Spec{trusted}, verify: trusts(true)},
		{name: "trusted authority of Linux, taken out by hand", os: "linux", before: []steps.Spec{trusted},
			drift: func(t *testing.T, h host.Host) { stepstest.Must(t, h.DistrustCA(t.Context(), authority.Raw)) },
			list:  []steps.Spec{trusted}, verify: trusts(true)},
		{name: "sysctl fresh", os: "linux", list: []steps.Spec{sysctl("net.ipv4.ip_forward", "1")},
			verify: parameter("net.ipv4.ip_forward", "1")},
		{name: "sysctl drifted", os: "linux", before: []steps.Spec{sysctl("net.ipv4.ip_forward", "1")},
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.SetSysctl(t.Context(), "net.ipv4.ip_forward", "0"))
			},
			list: []steps.Spec{sysctl("net.ipv4.ip_forward", "1")}, verify: parameter("net.ipv4.ip_forward", "1")},
		{name: "sysctl lost at boot", os: "linux", before: []steps.Spec{sysctl("vm.max_map_count", "262144")},
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.Remove(t.Context(), "/etc/sysctl.d/90-nodejoin-vm.max_map_count.conf"))
			},
			list: []steps.Spec{sysctl("vm.max_map_count", " 262144 ")},
			verify: content("/etc/sysctl.d/90-nodejoin-vm.max_map_count.conf",
				"# Managed by nodejoin.\nvm.max_map_count = 262144\n")},
		{name: "sysctl of a module", os: "linux",
			list: []steps.Spec{module("br_netfilter"), sysctl("net.bridge.bridge-nf-call-iptables", "1")},
			verify: func(t *testing.T, h host.Host) {
				parameter("net.bridge.bridge-nf-call-iptables", "1")(t, h)
				content("/etc/modules-load.d/nodejoin-br_netfilter.conf", "# Managed by nodejoin.\nbr_netfilter\n")(t, h)
			}},
		{name: "module loaded by another", os: "linux", drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.LoadKernelModule(t.Context(), "vxlan"))
		},
			list: []steps.Spec{module("vxlan")}, verify: content("/etc/modules-load.d/nodejoin-vxlan.conf",
				"# Managed by nodejoin.\nvxlan\n")},
		{name: "module after a boot", os: "linux", before: []steps.Spec{module("vxlan")},
			drift: func(t *testing.T, h host.Host) { stepstest.Must(t, h.(*sandbox.Host).Reboot(t.Context())) },
			list:  []steps.Spec{module("vxlan")}},
		{name: "module built in", os: "linux", list: []steps.Spec{module("overlay")},
			verify: func(t *testing.T, h host.Host) {
				if _, err := h.Stat(t.Context(), "/etc/modules-load.d/nodejoin-overlay.conf"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a module that is built in has a file for the boot: %v", err)
				}
			}},
		{name: "service that makes something in the kernel", os: "linux", list: inKernel(),
			verify: func(t *testing.T, h host.Host) {
				running("containerd")(t, h)
				links, err := h.Interfaces(t.Context())
				if chains, err2 := h.FilterChains(t.Context()); err != nil || err2 != nil ||
					!slices.Contains(links, "cni0") || len(chains) != 1 {
					t.Errorf("interfaces %v, %v; chains %v, %v", links, err, chains, err2)
				}
			}},
		{name: "wrapped service fresh", list: wrapper(`C:\k\worker.log`), verify: told(`C:\k\worker.log`)},
		{name: "wrapped service with another log", before: wrapper(`C:\k\old.log`), list: wrapper(`C:\k\worker.log`),
			verify: told(`C:\k\worker.log`)},
		{name: "wrapped service drifted", before: wrapper(`C:\k\worker.log`), drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t,
				h.SetRegistryValue(t.Context(), `HKLM\SYSTEM\CurrentControlSet\Services\worker\Parameters`,
					"AppStderr", host.RegistryValue{Type: "string", String: "NUL"}))
			stepstest.Must(t,
				h.DeleteRegistryValue(t.Context(), `HKLM\SYSTEM\CurrentControlSet\Services\worker\Parameters\AppExit`, ""))
		}, list: wrapper(`C:\k\worker.log`), verify: told(`C:\k\worker.log`)},
		{name: "service made a wrapped one",
			before: []steps.Spec{wrapper("")[1],
				stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\worker.exe`))},
			list: wrapper(`C:\k\worker.log`), verify: told(`C:\k\worker.log`)},
		{name: "dynamic ports fresh", list: []steps.Spec{dynamic(34000)}, verify: outgoing(34000)},
		{name: "dynamic ports drifted", before: []steps.Spec{dynamic(34000)}, drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.SetDynamicPorts(t.Context(), host.PortRange{Protocol: "tcp", First: 20000, Last: 30000}))
		}, list: []steps.Spec{dynamic(34000)}, verify: outgoing(34000)},
		{name: "reserved ports fresh", list: reserve, verify: reserved},
		{name: "reserved ports drifted", before: reserve, drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.ReleasePorts(t.Context(), nodePorts))
		}, list: reserve, verify: reserved},
		{name: "reserved ports of another", drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.ReservePorts(t.Context(), nodePorts))
		}, list: reserve, verify: reserved},
		{name: "source VIP fresh", list: []steps.Spec{vip("10.244.3.0/24")},
			verify: content(`C:\var\lib\cni\networks\flannel.4096\10.244.3.2`, "kube-proxy\r\nsource-vip")},
		{name: "source VIP moved", before: []steps.Spec{vip("10.244.3.0/24")}, drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\var\lib\cni\networks\flannel.4096\10.244.4.2`, "pod\r\neth0")
			stepstest.Put(t, h, `C:\var\lib\cni\networks\flannel.4096\last_reserved_ip.0`, "10.244.4.7")
		}, list: []steps.Spec{vip("10.244.4.0/24")}, verify: func(t *testing.T, h host.Host) {
			content(`C:\var\lib\cni\networks\flannel.4096\10.244.4.3`, "kube-proxy\r\nsource-vip")(t, h)
			content(`C:\var\lib\cni\networks\flannel.4096\last_reserved_ip.0`, "10.244.4.7")(t, h)
			if _, err := h.Stat(t.Context(), `C:\var\lib\cni\networks\flannel.4096\10.244.3.2`); err == nil {
				t.Error("the stale reservation is still there")
			}
		}},
		{name: "CNI configuration in the way", drift: func(t *testing.T, h host.Host) {
			for _, name := range []string{"0-containerd-nat.json", "05-other.conf", "10-flannel.conflist",
				"20-later.conf", "0.txt"} {
				stepstest.Put(t, h, `C:\etc\cni\net.d\`+name, name)
			}
		}, list: []steps.Spec{stepstest.Spec("cni_conf_first", "first",
			&kinds.CNIConfFirst{Path: `C:\etc\cni\net.d\10-flannel.conflist`})},
			verify: func(t *testing.T, h host.Host) {
				left, err := h.List(t.Context(), `C:\etc\cni\net.d`)
				stepstest.Must(t, err)
				var names []string
				for _, fi := range left {
					names = append(names, fi.Name)
				}
				if d := cmp.Diff([]string{"0.txt", "10-flannel.conflist", "20-later.conf"}, names); d != "" {
					t.Error(d)
				}
				f, err := h.Facts(t.Context())
				stepstest.Must(t, err)
				rec, err := record.Load(t.Context(), h, f)
				stepstest.Must(t, err)
				for _, name := range []string{"0-containerd-nat.json", "05-other.conf"} {
					if o := rec.Claims[record.File.Of(`C:\etc\cni\net.d\`+name)]; !o.Existed || len(o.Previous) == 0 {
						t.Errorf("the record does not hold %s: %+v", name, o)
					}
				}
			}},
		{name: "CNI configuration, no folder",
			list: []steps.Spec{stepstest.Spec("cni_conf_first", "first",
				&kinds.CNIConfFirst{Path: `C:\etc\cni\net.d\10-flannel.conflist`})}},
		{name: "file gate", drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\run\subnet.env`, "FLANNEL_SUBNET=10.244.3.1/24\n")
		},
			list: []steps.Spec{stepstest.Spec("file_ready", "g",
				&kinds.FileReady{Path: `C:\run\subnet.env`, Contains: "FLANNEL_SUBNET="})}},
		{name: "preflight",
			list: []steps.Spec{stepstest.Spec("preflight", "p",
				&preflight.Preflight{OS: "windows", MinBuild: "10.0.17763", Services: []string{"kubelet"},
					Ports: []string{"tcp/10250"}})}},
		{name: "preflight, limited",
			list: []steps.Spec{stepstest.Spec("preflight", "p", &preflight.Preflight{OS: "windows", Path: `C:\`,
				MinFree: "1KiB", Only: []string{"operating-system", "disk-space"}})}},
	}, art
}

func external(kind string, vni uint32) *kinds.HNSNetwork {
	return &kinds.HNSNetwork{Name: "External", Type: kind, Subnet: "192.168.255.0/30", Gateway: "192.168.255.1", VNI: vni}
}

// lasting wants the network, and that a boot leaves it.
func lasting(kind string) func(*testing.T, host.Host) {
	return func(t *testing.T, h host.Host) {
		stepstest.Must(t, h.Reboot(t.Context()))
		n, err := h.HNSNetwork(t.Context(), "External")
		if err != nil || n.Type != kind || n.ManagementIP == "" || !slices.Equal(n.Subnets, []string{"192.168.255.0/30"}) {
			t.Errorf("network %+v, %v; want one of type %s", n, err, kind)
		}
	}
}
