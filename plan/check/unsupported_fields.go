package check

// field is a field that Windows does not support.
type field struct {
	path string // of the pod's spec, or of the container
	id   string
	// api: the API server rejects it in a pod with spec.os.name: windows (kubernetes
	// pkg/apis/core/validation/validation.go, validateWindows; the documentation's list "Pod OS").
	api      bool
	severity Severity         // what the API server accepts
	wrong    func(value) bool // and is worth reporting
	why      string
	remedy   string
}

func set(v value) bool    { return v.there() }
func isTrue(v value) bool { return v.yes() }
func listed(v value) bool { return v.there() && !v.empty() }

// unset reports that the API server treats the value of a field as absent.
func unset(path string, v value) bool {
	switch path {
	case "hostPID", "hostIPC":
		return !v.yes()
	case "securityContext.sysctls":
		return v.empty()
	}
	return false
}

const (
	linuxOnly = "remove it; it is for Linux"
	userName  = "write windowsOptions: {runAsUserName: \"ContainerUser\"} instead"
)

// podFields are the fields of a pod's spec. Sources: the lists of "Windows containers in Kubernetes" and
// "Guide for scheduling Windows containers" (kubernetes.io), which give the reasons; validateWindows, which
// rejects.
var podFields = []field{
	{"hostPID", "host-pid", true, Warning, isTrue, "Windows shares no host namespaces; the field is ignored", linuxOnly},
	{"hostIPC", "host-ipc", true, Warning, isTrue, "Windows shares no host namespaces; the field is ignored", linuxOnly},
	{"hostUsers", "host-users", true, Warning, func(v value) bool { return v.no() },
		"Windows has no user namespaces", linuxOnly},
	{"shareProcessNamespace", "share-process-namespace", true, Warning, isTrue,
		"Windows containers cannot share their processes or root file systems", linuxOnly},
	{"dnsPolicy", "dns-host-network", false, Warning, func(v value) bool { return v.str() == "ClusterFirstWithHostNet" },
		"not supported on Windows: pods in the host's network (HostProcess) use the host's DNS servers",
		"leave it out, and do not rely on cluster names there"},
	{"securityContext.seLinuxOptions", "se-linux", true, Warning, set, "Windows has no SELinux", linuxOnly},
	{"securityContext.seLinuxChangePolicy", "se-linux", true, Warning, set, "", ""},
	{"securityContext.seccompProfile", "seccomp", true, Warning, set, "Windows has no seccomp", linuxOnly},
	{"securityContext.appArmorProfile", "app-armor", true, Warning, set, "Windows has no AppArmor", linuxOnly},
	{"securityContext.fsGroup", "fs-group", true, Warning, set,
		"Windows has no numeric groups; volumes keep their access", linuxOnly},
	{"securityContext.fsGroupChangePolicy", "fs-group-change-policy", true, Warning, set,
		"Windows has no numeric groups; volumes keep their access", linuxOnly},
	{"securityContext.sysctls", "sysctls", true, Warning, listed, "Windows has no sysctls", linuxOnly},
	{"securityContext.runAsUser", "run-as-user", true, Warning, set, "Windows has no numeric users", userName},
	{"securityContext.runAsGroup", "run-as-group", true, Warning, set, "Windows has no numeric groups", linuxOnly},
	{"securityContext.supplementalGroups", "supplemental-groups", true, Warning, listed,
		"Windows has no numeric groups", linuxOnly},
	{"securityContext.supplementalGroupsPolicy", "supplemental-groups-policy", true, Warning, set,
		"Windows has no numeric groups", linuxOnly},
}

// containerFields are those of a container.
var containerFields = []field{
	{"securityContext.seLinuxOptions", "se-linux", true, Warning, set, "", ""},
	{"securityContext.seccompProfile", "seccomp", true, Warning, set, "", ""},
	{"securityContext.appArmorProfile", "app-armor", true, Warning, set, "", ""},
	{"securityContext.runAsUser", "run-as-user", true, Warning, set, "", ""},
	{"securityContext.runAsGroup", "run-as-group", true, Warning, set, "", ""},
	{"securityContext.capabilities", "capabilities", true, Warning, set, "Windows has no POSIX capabilities", linuxOnly},
	{"securityContext.readOnlyRootFilesystem", "read-only-root", true, Warning, isTrue,
		"system processes of a Windows container write to its registry and file system, so it is always writable",
		linuxOnly},
	{"securityContext.privileged", "privileged", true, Warning, isTrue,
		"Windows has no privileged containers; HostProcess containers take their place",
		"remove it, or write windowsOptions: {hostProcess: true, runAsUserName: \"NT AUTHORITY\\\\SYSTEM\"} with " +
			"hostNetwork: true"},
	{"securityContext.allowPrivilegeEscalation", "privilege-escalation", true, Warning, isTrue,
		"it depends on Linux capabilities", linuxOnly},
	{"securityContext.procMount", "proc-mount", true, Warning, set, "Windows has no /proc", linuxOnly},
	{"volumeDevices", "volume-devices", false, Error, listed, "Windows attaches no raw block devices to containers",
		"mount a volume with a file system"},
}
