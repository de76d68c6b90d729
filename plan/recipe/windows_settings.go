package recipe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// afterBoot ends the title of a setting that Windows reads when it boots.
const afterBoot = " (takes effect after a reboot)"

const (
	currentControl = `HKLM\SYSTEM\CurrentControlSet`
	hnsState       = currentControl + `\Services\hns\State`
	policies       = `HKLM\SOFTWARE\Policies\Microsoft`
)

func registrySetting(id, title, key, name string, v host.RegistryValue) Setting {
	return Setting{ID: id, Title: title, Kind: "registry", Args: &kinds.Registry{Key: key, Name: name, RegistryValue: v}}
}

// counted is a registry setting that Windows reads when it boots.
func counted(s Setting, what string) Setting {
	s.Args.(*kinds.Registry).Reboot = what
	return s
}

// Features adds optional Windows features that are turned on.
func Features(names []string) []Setting {
	var out []Setting
	for _, n := range names {
		id := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, strings.ToLower(n))
		out = append(out, Setting{ID: "feature_" + id, Title: "Windows feature " + n, Kind: "feature",
			Args: &kinds.Feature{Name: n}})
	}
	return out
}

func dword(n uint64) host.RegistryValue { return host.RegistryValue{Type: "dword", Number: n} }

func onOff(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}

// LongPaths lets programs that opt in use paths of more than 260 characters; it affects programs started
// later (learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation).
func LongPaths(on bool) []Setting {
	return []Setting{registrySetting("long_paths", "Long paths, for programs started from now on",
		currentControl+`\Control\FileSystem`, "LongPathsEnabled", dword(onOff(on)))}
}

// PageFile sets the page file of drive C: to a fixed size in MiB. Windows has no OOM killer, so without a page
// file a full node stalls. The value is "PATH INITIAL MAXIMUM" for each file, in megabytes.
func PageFile(size int64) []Setting {
	return []Setting{counted(registrySetting("page_file", fmt.Sprintf("Page file of %d MiB", size)+afterBoot,
		currentControl+`\Control\Session Manager\Memory Management`, "PagingFiles",
		host.RegistryValue{Type: "multi_string", Strings: []string{fmt.Sprintf(`C:\pagefile.sys %d %d`, size, size)}}),
		"the page file")}
}

// CrashDumps maps the words for what Windows keeps of a crash to the values of CrashControl\CrashDumpEnabled
// (learn.microsoft.com/troubleshoot/windows-server/performance/memory-dump-file-options).
var CrashDumps = map[string]uint64{"none": 0, "complete": 1, "kernel": 2, "small": 3, "automatic": 7}

// CrashDump sets what is kept when Windows itself crashes.
func CrashDump(word string) []Setting {
	return []Setting{counted(registrySetting("crash_dump", "Crash dump: "+word+afterBoot,
		currentControl+`\Control\CrashControl`, "CrashDumpEnabled", dword(CrashDumps[word])), "the crash dump")}
}

// WindowsUpdates maps the words for how updates are installed to the values of NoAutoUpdate and AUOptions
// (learn.microsoft.com/windows/deployment/update/waas-wu-settings).
var WindowsUpdates = map[string][2]uint64{"off": {1, 2}, "notify": {0, 2}, "download": {0, 3}}

// WindowsUpdate sets how updates are installed. Automatic updates have broken HNS
// (microsoft/Windows-Containers#516) and reboot nodes that were not drained.
func WindowsUpdate(word string) []Setting {
	const key = policies + `\Windows\WindowsUpdate\AU`
	v := WindowsUpdates[word]
	return []Setting{
		registrySetting("windows_update", "Windows Update: "+word, key, "NoAutoUpdate", dword(v[0])),
		registrySetting("windows_update_option", "Windows Update: automatic updates", key, "AUOptions", dword(v[1])),
	}
}

// StaticAddress keeps a static address when HNS creates a virtual switch on the network interface, before
// Windows Server 2022 (openshift/windows-machine-config-operator, pkg/windows/windows.go).
func StaticAddress(on bool) []Setting {
	return []Setting{registrySetting("static_address", "Static address kept by HNS", hnsState, "DeviceLessNicDisabled",
		dword(onOff(on)))}
}

// SMBNames lets containers resolve SMB shares by name under containerd (kubernetes-sigs/image-builder,
// images/capi/ansible/windows/roles/systemprep).
func SMBNames(on bool) []Setting {
	return []Setting{registrySetting("smb_names", "SMB shares by name in containers", hnsState,
		"EnableCompartmentNamespace", dword(onOff(on)))}
}

// KeepAlive sets the idle time after which Windows probes a TCP connection; it then probes every second, as
// on GCE (kubernetes cluster/gce/windows/k8s-node-setup.psm1, Set-WindowsTCPParameters). Both are in
// milliseconds (learn.microsoft.com, KeepAliveTime).
func KeepAlive(silence time.Duration) []Setting {
	const key = currentControl + `\Services\Tcpip\Parameters`
	return []Setting{
		counted(registrySetting("tcp_keepalive", "TCP keep-alive after "+silence.String()+afterBoot, key, "KeepAliveTime",
			dword(uint64(silence.Milliseconds()))), "the TCP keep-alive"),
		counted(registrySetting("tcp_keepalive_interval", "TCP keep-alive every second from then on"+afterBoot, key,
			"KeepAliveInterval", dword(1000)), "the TCP keep-alive"),
	}
}

// DynamicPorts sets the range of ephemeral ports. If it is too small, a node with many connections runs out
// (kubernetes-sigs/image-builder#947, Azure/AKS#1375).
func DynamicPorts(r host.PortRange) []Setting {
	d := kinds.DynamicPorts(r)
	return []Setting{{ID: "dynamic_ports", Title: "Dynamic ports " + r.String(), Kind: "dynamic_ports", Args: &d}}
}

// ReservedPorts are ranges excluded from ephemeral ports. Windows NAT takes its ports from the ephemeral
// range, including those of services (docker/for-win#3171).
func ReservedPorts(list []host.PortRange) []Setting {
	var out []Setting
	for i, r := range list {
		p := kinds.ReservedPorts(r)
		out = append(out, Setting{ID: "reserved_ports_" + strconv.Itoa(i+1), Title: "Reserved ports " + r.String(),
			Kind: "reserved_ports", Args: &p})
	}
	return out
}

// DefenderExclusions are programs and folders that Defender does not scan on access, set through its policy.
// Scanning unpacked images has taken a third of a node's CPU (microsoft/Windows-Containers#92). The policy
// can be set without Defender.
func DefenderExclusions(processes, folders []string) []Setting {
	const key = policies + `\Windows Defender\Exclusions`
	var out []Setting
	for _, l := range []struct {
		what, sub string
		list      []string
	}{{"process", "Processes", processes}, {"folder", "Paths", folders}} {
		if len(l.list) == 0 {
			continue
		}
		out = append(out, registrySetting("defender_"+l.what, "Defender: the list of exclusions ("+l.sub+")", key,
			"Exclusions_"+l.sub, dword(1)))
		for i, path := range l.list {
			out = append(out, registrySetting("defender_"+l.what+"_"+strconv.Itoa(i+1),
				"Defender does not scan "+host.Base("windows", path), key+`\`+l.sub, path,
				host.RegistryValue{Type: "string", String: "0"}))
		}
	}
	return out
}

// NodePrograms returns the programs of a Windows node with this runtime, and the folder of its images, for
// DefenderExclusions.
func NodePrograms(runtime string) (processes, folders []string) {
	processes, folders = join(winDocker, "dockerd.exe"), []string{winDockerData}
	if runtime == "containerd" {
		processes, folders = join(winContainerd, "containerd.exe", "containerd-shim-runhcs-v1.exe"),
			[]string{winContainerdData}
	}
	return append(processes, join(winBin, "kubelet.exe", "kube-proxy.exe", "flanneld.exe")...), folders
}

// ManagedFile is a small file of the plan.
func ManagedFile(name string, f kinds.File) Setting {
	return Setting{ID: "file_" + name, Title: "File " + f.Path, Kind: "file", Args: &f}
}
