package preflight_test

import (
	"slices"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/stepstest"
)

// narrowSSH has the OpenSSH rule of a new Windows Server 2025, and a plan that makes no rules.
func narrowSSH(s *stepstest.Survey, makesSwitch bool) {
	s.Args.SSHPort, s.Args.FirewallOff, s.Args.Switch = 22, true, makesSwitch
	s.Text(openSSHRules, "OpenSSH-Server-In-TCP", "v2.33|Action=Allow|Active=TRUE|Dir=In|Protocol=6|"+
		`Profile=Domain|Profile=Private|LPort=22|App=%SystemRoot%\system32\OpenSSH\sshd.exe|`)
}

// openSSHRules is the registry key with the rules of the firewall.
const openSSHRules = `HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules`

// ethernet is an adapter with a default route.
func ethernet(name string, addresses ...string) host.Adapter {
	return host.Adapter{Name: name, Addresses: addresses, Gateway: true}
}

// findableCases: for each finding, a case that provokes it and a close one that does not.
var findableCases = []struct {
	id      string
	provoke func(s *stepstest.Survey)
	near    func(s *stepstest.Survey)
	has     string // part of the observation
}{
	{id: "operating-system", provoke: func(s *stepstest.Survey) { s.Args.OS = "linux" },
		near: func(s *stepstest.Survey) { s.Args.OS = "" }, has: "runs windows, the plan wants linux"},
	{id: "architecture", provoke: func(s *stepstest.Survey) { s.Args.Arch = "arm64" },
		near: func(s *stepstest.Survey) { s.Args.Arch, s.Config.Arch = "arm64", "arm64" }, has: "is amd64"},
	{id: "administrator", provoke: func(s *stepstest.Survey) { s.Quirks.NoAdmin = true },
		near: func(s *stepstest.Survey) {}, has: "no administrator rights"},
	{id: "disk-space", provoke: func(s *stepstest.Survey) { s.Args.MinFree = "1000TiB" },
		near: func(s *stepstest.Survey) { s.Args.MinFree = "" }, has: "the plan wants 1000 TiB"},
	{id: "memory", provoke: func(s *stepstest.Survey) { s.Quirks.Memory = 2 << 30 }, near: func(s *stepstest.Survey) {
		s.Quirks.Memory = 4<<30 - 1<<20
	}, has: "2 GiB of memory"},
	{id: "processors", provoke: func(s *stepstest.Survey) { s.Quirks.CPUs = 1 }, near: func(s *stepstest.Survey) {
		s.Quirks.CPUs = 2
	}, has: "one processor"},
	{id: "host-name", provoke: func(s *stepstest.Survey) { s.Config.Hostname = "win_1" },
		near: func(s *stepstest.Survey) { s.Config.Hostname = "WIN-1.example" }, has: `"win_1" has characters`},
	{id: "host-name-differs", provoke: func(s *stepstest.Survey) { s.Config.Hostname = "WIN-AB12CD" },
		near: func(s *stepstest.Survey) { s.Node, s.Config.Hostname = "win-1.example", "WIN-1" },
		has:  "named WIN-AB12CD, its node win-1"},
	{id: "windows-build", provoke: func(s *stepstest.Survey) { s.Config.Build = "10.0.14393" },
		near: func(s *stepstest.Survey) { s.Config.Build = "10.0.17763"; s.Args.StaticKept = true },
		has:  "is 10.0.14393, the lowest that works is 10.0.17763"},
	{id: "windows-edition", provoke: func(s *stepstest.Survey) {
		s.Text(stepstest.VersionKey, "InstallationType", "Client")
	}, near: func(s *stepstest.Survey) { s.Text(stepstest.VersionKey, "InstallationType", "Server Core") },
		has: `"Client"`},
	{id: "update-missing", provoke: func(s *stepstest.Survey) {
		s.Config.Build = "10.0.17763"
		s.Number(stepstest.VersionKey, "UBR", 292)
	},
		near: func(s *stepstest.Survey) { s.Config.Build = "10.0.17763"; s.Number(stepstest.VersionKey, "UBR", 379) },
		has:  "10.0.17763.292, the lowest that works is 10.0.17763.379"},
	{id: "update-broken", provoke: func(s *stepstest.Survey) { s.Number(stepstest.VersionKey, "UBR", 2582) },
		near: func(s *stepstest.Survey) { s.Number(stepstest.VersionKey, "UBR", 2583) },
		has:  "10.0.20348.2582: it breaks HNS"},
	{id: "pending-reboot", provoke: func(s *stepstest.Survey) {
		s.Number(stepstest.Servicing+"RebootPending", "x", 1)
		s.Number(`HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired`, "x", 1)
		s.Registry(stepstest.Manager, "PendingFileRenameOperations",
			host.RegistryValue{Type: "multi_string", Strings: []string{`\??\C:\a`}})
	}, near: func(s *stepstest.Survey) {
		s.Number(stepstest.Servicing+"SessionsPending", "x", 1)
		s.Registry(stepstest.Manager, "PendingFileRenameOperations", host.RegistryValue{Type: "multi_string"})
	}, has: "for Windows Update, features or updates of Windows, files that are in use"},
	{id: "feature-reboot", provoke: func(s *stepstest.Survey) {
		s.Args.Features = []string{"Containers", "Microsoft-Hyper-V"}
		s.Number(stepstest.Servicing+"RebootPending", "x", 1)
	}, near: func(s *stepstest.Survey) {
		s.Args.Features = []string{"Containers"} // which is on
		s.Number(stepstest.Servicing+"RebootPending", "x", 1)
	},
		has: "the plan turns on features (Containers, Microsoft-Hyper-V), and Windows waits for a reboot for " +
			"features or updates of Windows"},
	{id: "pending-rename", provoke: func(s *stepstest.Survey) {
		s.Text(stepstest.Names+"ComputerName", "ComputerName", "OTHER")
	}, near: func(s *stepstest.Survey) { s.Text(stepstest.Names+"ComputerName", "ComputerName", "win-1") },
		has: "WIN-1 and will be OTHER"},
	{id: "containers-feature", provoke: func(s *stepstest.Survey) {
		s.Without(stepstest.Services+"hns", "Start")
		s.Without(stepstest.Services+"vmcompute", "Start")
	},
		near: func(s *stepstest.Survey) { s.Number(stepstest.Services+"hns", "Start", 2) },
		has:  "no service vmcompute and no service hns"},
	{id: "containers-services", provoke: func(s *stepstest.Survey) { s.Number(stepstest.Services+"hns", "Start", 4) },
		near: func(s *stepstest.Survey) { s.Number(stepstest.Services+"hns", "Start", 3) }, has: "hns is disabled"},
	{id: "page-file", provoke: func(s *stepstest.Survey) {
		s.Registry(stepstest.Manager+`\Memory Management`, "PagingFiles", host.RegistryValue{Type: "multi_string"})
	},
		near: func(s *stepstest.Survey) {
			s.Registry(stepstest.Manager+`\Memory Management`, "PagingFiles",
				host.RegistryValue{Type: "multi_string", Strings: []string{`C:\pagefile.sys 8096 8096`}})
		}, has: "no page file"},
	{id: "long-paths", provoke: func(s *stepstest.Survey) {
		s.Number(`HKLM\SYSTEM\CurrentControlSet\Control\FileSystem`, "LongPathsEnabled", 0)
	},
		near: func(s *stepstest.Survey) {
			s.Number(`HKLM\SYSTEM\CurrentControlSet\Control\FileSystem`, "LongPathsEnabled", 1)
		}, has: "long paths are off"},
	{id: "automatic-updates", provoke: func(s *stepstest.Survey) {}, near: func(s *stepstest.Survey) {
		s.Number(`HKLM\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU`, "NoAutoUpdate", 1)
	}, has: "no policy"},
	{id: "defender-exclusions", provoke: func(s *stepstest.Survey) {
		s.Number(stepstest.Services+"WinDefend", "Start", 2)
	}, near: func(s *stepstest.Survey) {
		s.Number(stepstest.Services+"WinDefend", "Start", 2)
		s.Text(`HKLM\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions\Processes`,
			`C:\Program Files\containerd\containerd.exe`, "0")
	}, has: "Defender runs"},
	{id: "defender-protected", provoke: func(s *stepstest.Survey) {
		s.Number(stepstest.Services+"WinDefend", "Start", 2)
		s.Number(`HKLM\SOFTWARE\Microsoft\Windows Defender\Features`, "TPExclusions", 1)
	}, near: func(s *stepstest.Survey) {
		s.Number(stepstest.Services+"WinDefend", "Start", 4)
		s.Number(`HKLM\SOFTWARE\Microsoft\Windows Defender\Features`, "TPExclusions", 1)
	}, has: "TPExclusions is 1"},
	{id: "folder-open", provoke: func(s *stepstest.Survey) {
		s.Args.Guarded, s.Quirks.Open = []string{`C:\k`, `C:\opt\cni\bin`, `C:\opt\cni\bin\x`},
			[]string{`C:\OPT`, `C:\opt\cni\bin`}
		s.File(`C:\opt\cni\bin\x\y`)
	}, near: func(s *stepstest.Survey) { // a folder that a step closes, a missing one, and an unrelated one
		s.Args.Guarded, s.Quirks.Open = []string{`C:\k`, `C:\opt\cni\bin`}, []string{`C:\k`, `C:\opt`, `C:\etc`}
		s.File(`C:\etc\cni\x`)
	}, has: `users who are not administrators may rename  C:\opt or`},
	{id: "no-address", provoke: func(s *stepstest.Survey) { s.Config.IP = "169.254.7.7" },
		near: func(s *stepstest.Survey) { s.Config.IP = "169.253.7.7" }, has: "169.254.7.7"},
	{id: "address-elsewhere", provoke: func(s *stepstest.Survey) { s.Args.Address = "192.0.2.99" },
		near: func(s *stepstest.Survey) { s.Args.Address = "192.0.2.10" }, has: "says 192.0.2.99"},
	{id: "address-in-cluster-network", provoke: func(s *stepstest.Survey) { s.Config.IP = "10.244.3.3" },
		near: func(s *stepstest.Survey) { s.Config.IP = "10.245.3.3" }, has: "10.244.3.3 is in the network of the pods"},
	{id: "network-overlap", provoke: func(s *stepstest.Survey) {
		s.Adapters(ethernet("Ethernet", "192.0.2.10/24"),
			host.Adapter{Name: "Storage", Addresses: []string{"10.100.0.5/16"}})
	},
		near: func(s *stepstest.Survey) {
			s.Adapters(ethernet("Ethernet", "192.0.2.10/24"), host.Adapter{Name: "vEthernet (flannel.4096)",
				Addresses: []string{"10.244.3.1/24"}})
		}, has: "10.100.0.0/16 of Storage overlaps that of the services"},
	{id: "ssh-profile", provoke: func(s *stepstest.Survey) {
		narrowSSH(s, true)
		s.Text(openSSHRules, "other", "v2.33|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=5986|")
		s.Text(openSSHRules, "off", "v2.33|Action=Allow|Active=FALSE|Dir=In|Protocol=6|LPort=22|")
		s.Text(openSSHRules, "one", "v2.33|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=22|RA4=192.0.2.1|")
		s.Text(openSSHRules, "program", `v2.33|Action=Allow|Active=TRUE|Dir=In|App=C:\other.exe|`)
	}, near: func(s *stepstest.Survey) {
		narrowSSH(s, true)
		s.Text(openSSHRules, "company", "v2.33|Action=Allow|Active=TRUE|Dir=In|Protocol=6|Profile=Public|LPort=22|")
	}, has: "OpenSSH-Server-In-TCP is for these profiles only: Domain, Private"},
	{id: "ssh-profile-later", provoke: func(s *stepstest.Survey) { narrowSSH(s, false) },
		near: func(s *stepstest.Survey) {
			s.Args.SSHPort, s.Args.FirewallOff = 22, true
			s.Text(openSSHRules, "OpenSSH-Server-In-TCP", "v2.33|Action=Allow|Active=TRUE|Dir=In|Protocol=6|LPort=22|")
		}, has: "OpenSSH-Server-In-TCP is for these profiles only: Domain, Private"},
	{id: "ssh-start", provoke: func(s *stepstest.Survey) {
		s.Args.SSHPort, s.Args.Reboots = 22, true
		s.Running("sshd") // its start type is manual
	}, near: func(s *stepstest.Survey) {
		s.Args.SSHPort, s.Args.Reboots = 22, true
		s.Service("sshd", false) // not the server that answers
	}, has: "the start type of service sshd is manual"},
	{id: "ssh-start-later", provoke: func(s *stepstest.Survey) {
		s.Args.SSHPort = 22
		s.Running("sshd")
	}, near: func(s *stepstest.Survey) { s.Running("sshd") }, has: "the start type of service sshd is manual"},
	{id: "address-leased", provoke: func(s *stepstest.Survey) {
		s.Adapters(host.Adapter{Name: "Ethernet", Addresses: []string{"192.0.2.10/24"}, Gateway: true, DHCP: true})
	},
		near: func(s *stepstest.Survey) {
			s.Adapters(ethernet("Ethernet", "192.0.2.10/24"),
				host.Adapter{Name: "Other", Addresses: []string{"198.51.100.1/24"}, DHCP: true})
		}, has: "192.0.2.10 of Ethernet is leased"},
	{id: "static-address-lost", provoke: func(s *stepstest.Survey) { s.Config.Build = "10.0.17763" },
		near: func(s *stepstest.Survey) {
			s.Config.Build = "10.0.17763"
			s.Number(stepstest.Services+`hns\State`, "DeviceLessNicDisabled", 1)
		}, has: "192.0.2.10 of Ethernet is static"},
	{id: "address-on-switch", provoke: func(s *stepstest.Survey) {
		s.Adapters(ethernet("vEthernet (Lab)", "192.0.2.10/24"))
	}, near: func(s *stepstest.Survey) {
		s.Adapters(ethernet("vEthernet (Ethernet)", "192.0.2.10/24"))
		s.Quirks.Networks = []host.HNSNetwork{{Name: "flannel.4096", Type: "Overlay"}}
	}, has: "192.0.2.10 is that of vEthernet (Lab)"},
	{id: "default-routes", provoke: func(s *stepstest.Survey) {
		s.Adapters(ethernet("A", "192.0.2.10/24"), ethernet("B", "198.51.100.1/24"))
	},
		near: func(s *stepstest.Survey) {
			s.Adapters(ethernet("A", "192.0.2.10/24"), ethernet("B", "198.51.100.1/24"))
			s.Args.Address = "192.0.2.10"
		}, has: "A, B"},
	{id: "api-name", provoke: func(s *stepstest.Survey) { s.Quirks.API = "name" }, near: func(s *stepstest.Survey) {
		s.Quirks.API = "connection refused"
	}, has: "cannot resolve https://api.example:6443"},
	{id: "api-unreachable", provoke: func(s *stepstest.Survey) { s.Quirks.API = "connection refused" },
		near: func(s *stepstest.Survey) { s.Quirks.API = "name" }, has: "connection refused"},
	{id: "api-certificate", provoke: func(s *stepstest.Survey) {
		serves(s, newAPICert(s.T, "api.example"), newAPICert(s.T, "api.example"))
	},
		near: func(s *stepstest.Survey) { c := newAPICert(s.T, "api.example"); serves(s, c, c) },
		has:  "not by the cluster's CA"},
	{id: "clock-skew", provoke: func(s *stepstest.Survey) { s.Quirks.ClockSkew = -7 * time.Minute },
		near: func(s *stepstest.Survey) { s.Quirks.ClockSkew = 4 * time.Minute }, has: "behind the API server's"},
	{id: "proxy-exceptions", provoke: func(s *stepstest.Survey) {
		s.Env("HTTPS_PROXY", "http://proxy.example:3128")
		s.Env("NO_PROXY", "localhost,other.example")
	}, near: func(s *stepstest.Survey) {
		s.Env("HTTPS_PROXY", "http://proxy.example:3128")
		s.Env("NO_PROXY", "localhost, .example, 10.0.0.0/8")
	}, has: "NO_PROXY lacks api.example, 10.244.0.0/16, 10.96.0.0/12"},
	{id: "proxy-unreachable", provoke: func(s *stepstest.Survey) {
		s.Quirks.TCP = "connection refused"
		s.Env("HTTP_PROXY", "http://user:word@proxy.example:3128")
	}, near: func(s *stepstest.Survey) {
		s.Quirks.TCP = "connection refused" // of the machine's proxy, which the plan replaces
		s.Args.Proxy = true
		s.Env("HTTP_PROXY", "http://proxy.example:3128")
	}, has: "the proxy proxy.example:3128 of the machine's environment does not answer"},
	{id: "foreign-service", provoke: func(s *stepstest.Survey) { s.Service("kubelet", false) },
		near: func(s *stepstest.Survey) { s.Service("kubelet", true) }, has: `kubelet is registered (C:\x\kubelet.exe)`},
	{id: "service-missing", provoke: func(s *stepstest.Survey) { s.Args.Required = []string{"docker"} },
		near: func(s *stepstest.Survey) { s.Args.Required = []string{"docker"}; s.Running("docker") },
		has:  "docker is not registered"},
	{id: "other-kubernetes", provoke: func(s *stepstest.Survey) { s.Service("rke2", false) },
		near: func(s *stepstest.Survey) { s.Service("rke3", false) }, has: "rke2 runs a node"},
	{id: "other-runtime", provoke: func(s *stepstest.Survey) { s.Service("docker", false) },
		near: func(s *stepstest.Survey) { s.Service("docker", false); s.Args.Services = []string{"docker"} },
		has:  "docker is another"},
	{id: "port-taken", provoke: func(s *stepstest.Survey) {
		s.Quirks.Listeners = []host.Listener{{Protocol: "tcp", Port: 10250, PID: 77}}
	}, near: func(s *stepstest.Survey) {
		s.Quirks.Listeners = []host.Listener{{Protocol: "udp", Port: 10250}, {Protocol: "tcp", Port: 4789}}
	}, has: "process 77 holds port 10250/tcp"},
	{id: "port-dynamic", provoke: func(s *stepstest.Survey) { s.Dynamic("tcp", 10000); s.Dynamic("udp", 4000) },
		near: func(s *stepstest.Survey) { s.Dynamic("tcp", 10251); s.Dynamic("udp", 4790) },
		has:  "the dynamic ports 10000-65535/tcp include 10250 of the node"},
	{id: "port-excluded", provoke: func(s *stepstest.Survey) {
		s.Quirks.Excluded = []host.PortRange{{Protocol: "tcp", First: 10200, Last: 10299},
			{Protocol: "udp", First: 4789, Last: 4789}}
	}, near: func(s *stepstest.Survey) {
		s.Quirks.Excluded = []host.PortRange{{Protocol: "udp", First: 10200, Last: 10299},
			{Protocol: "tcp", First: 4789, Last: 4789}, {Protocol: "tcp", First: 10251, Last: 10300}}
	}, has: "no program holds port 10250/tcp, but Windows refuses it"},
	{id: "hns-network-foreign", provoke: func(s *stepstest.Survey) {
		s.Quirks.Networks = []host.HNSNetwork{{Name: "External", Type: "L2Bridge"}}
	},
		near: func(s *stepstest.Survey) {
			s.Quirks.Networks = []host.HNSNetwork{{Name: "nat", Type: "NAT"}, {Name: "Flannel.4096", Type: "Overlay"}}
		}, has: "External of type L2Bridge"},
	{id: "swap", provoke: func(s *stepstest.Survey) { s.Linux(); s.Args.NoSwap, s.Quirks.Swap = true, 2<<30 },
		near: func(s *stepstest.Survey) { s.Linux(); s.Quirks.Swap = 2 << 30 }, has: "2 GiB of swap space"},
	{id: "control-groups", provoke: func(s *stepstest.Survey) {
		s.Linux()
		s.Args.CgroupV2, s.Quirks.Cgroup = true, "v1"
	}, near: func(s *stepstest.Survey) { s.Linux(); s.Args.CgroupV2 = true }, has: "control groups v1"},
	{id: "program-missing", provoke: func(s *stepstest.Survey) {
		s.Linux()
		s.Args.Programs = []string{"no-such-program"}
	}, near: func(s *stepstest.Survey) { s.Linux(); s.Args.Programs = []string{"iptables"} },
		has: "no-such-program is not installed"},
	{id: "leftovers", provoke: func(s *stepstest.Survey) { s.File(`C:\run\flannel\subnet.env`) },
		near: func(s *stepstest.Survey) { s.File(`C:\run\flannel\subnet.env`); s.Service("kubelet", true) },
		has:  "subnet.env"},
}

// TestSSHOfPublicNetworks: SSH stays reachable if the switch already exists, and if the firewall is off.
func TestSSHOfPublicNetworks(t *testing.T) {
	for name, near := range map[string]func(s *stepstest.Survey){
		"a switch": func(s *stepstest.Survey) { s.Adapters(ethernet("vEthernet (Ethernet)", "192.0.2.10/24")) },
		"a rule of sshd": func(s *stepstest.Survey) {
			s.Text(openSSHRules, "x", `Action=Allow|Active=TRUE|Dir=In|App=C:\sshd.exe|`)
		},
		"a firewall, off":    func(s *stepstest.Survey) { s.Number(openFirewall, "EnableFirewall", 0) },
		"a rule of a plan":   func(s *stepstest.Survey) { s.Args.FirewallOff = false },
		"no way by SSH":      func(s *stepstest.Survey) { s.Args.SSHPort = 0 },
		"no rule of its own": func(s *stepstest.Survey) { s.Without(openSSHRules, "OpenSSH-Server-In-TCP") },
	} {
		s := stepstest.NewSurvey(t)
		narrowSSH(s, true)
		near(s)
		list, _ := s.Findings()
		if slices.ContainsFunc(list, func(f steps.Finding) bool { return f.ID == "ssh-profile" }) {
			t.Errorf("found, although there is %s: %+v", name, list)
		}
	}
}

// openFirewall is the registry key with the settings of the firewall for public networks.
const openFirewall = `HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy\PublicProfile`
