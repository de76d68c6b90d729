package check

import (
	"slices"
	"strings"
)

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

// otherRows are fields inside lists.
var otherRows = []row{
	{"mount-propagation", Error, "Windows propagates no mounts", "remove mountPropagation"},
	{"sub-path", Warning, "Windows mounts whole volumes, not single files, and subPath is limited",
		"mount the whole volume in a folder of its own"},
	{"huge-pages", Error, "Windows containers have no huge pages", "remove the resource"},
	{"termination-grace", Warning,
		"under Docker the process gets CTRL_SHUTDOWN_EVENT and a fixed few seconds, whatever the value",
		"use containerd, or do not rely on it"},
}

func fieldRows() []row {
	var out []row
	for _, f := range slices.Concat(podFields, containerFields) {
		if f.why != "" {
			out = append(out, row{f.id, f.severity, f.why, f.remedy})
		}
	}
	return slices.Concat(out, otherRows, volumeRows, hostProcessRows)
}

// containers returns all containers of a pod.
func containers(spec value) []value {
	return slices.Concat(spec.get("initContainers").list(), spec.get("containers").list(),
		spec.get("ephemeralContainers").list())
}

// fields finds fields that Windows does not support.
func (k *checker) fields(spec value) {
	k.table(spec, podFields)
	k.hostProcess(spec)
	if v := spec.get("terminationGracePeriodSeconds"); v.there() && k.cluster.Runtime == "docker" {
		k.find("termination-grace", v, "terminationGracePeriodSeconds is %s", v.str())
	}
	for _, c := range containers(spec) {
		k.table(c, containerFields)
		for _, m := range c.get("volumeMounts").list() {
			if v := m.get("mountPropagation"); v.there() && v.str() != "None" {
				k.find("mount-propagation", v, "mountPropagation is %q", v.str())
			}
			for _, name := range []string{"subPath", "subPathExpr"} {
				if v := m.get(name); v.str() != "" {
					k.find("sub-path", v, "%s is %q", name, v.str())
				}
			}
		}
		for _, which := range []string{"requests", "limits"} {
			for _, p := range c.at("resources", which).pairs() {
				if strings.HasPrefix(p.key, "hugepages-") {
					k.find("huge-pages", p.value, "the container asks for %s", p.key)
				}
			}
		}
	}
	k.volumes(spec)
}

func (k *checker) table(in value, table []field) {
	for _, f := range table {
		v := in.at(strings.Split(f.path, ".")...)
		refused := f.api && k.osName && v.there() && !unset(f.path, v)
		if !v.there() || !refused && !f.wrong(v) {
			continue
		}
		severity, seen := f.severity, "the pod has "+f.path
		if refused {
			severity, seen = Error, seen+", and with spec.os.name windows the API server rejects it"
		}
		if s := v.str(); s != "" {
			seen = strings.Replace(seen, f.path, f.path+": "+s, 1)
		}
		k.findAs(severity, f.id, v, "%s", seen)
	}
}

// selector checks how a workload selects its pods (kubernetes pkg/apis/apps/validation/validation.go).
func (k *checker) selector() {
	if !slices.Contains([]string{"Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"}, k.object.kind()) {
		return
	}
	spec := k.object.get("spec")
	selector := spec.get("selector")
	if !selector.there() || selector.empty() {
		k.find("pod-selector", spec, "it has no selector")
		return
	}
	labels := spec.at("template", "metadata", "labels")
	for _, p := range selector.get("matchLabels").pairs() {
		if have := labels.get(p.key); !have.there() || have.str() != p.str() {
			k.find("pod-selector", p.value, "it selects pods with %s=%s, but its template does not set that label",
				p.key, p.str())
		}
	}
}

// podKeys are fields of a pod's spec that say where it runs; they are often misplaced.
var podKeys = []string{"nodeSelector", "tolerations", "affinity", "runtimeClassName", "nodeName"}

// misplaced finds them where they have no effect: in the workload's specification, in its template, in a
// container.
func (k *checker) misplaced(spec value) {
	var wrong []value
	switch k.object.kind() {
	case "Pod":
		wrong = []value{k.object.value}
	case "PodTemplate":
		wrong = []value{k.object.value, k.object.get("template")}
	case "CronJob":
		wrong = []value{k.object.value, k.object.get("spec"), k.object.at("spec", "jobTemplate"),
			k.object.at("spec", "jobTemplate", "spec"), k.object.at("spec", "jobTemplate", "spec", "template")}
	default:
		wrong = []value{k.object.value, k.object.get("spec"), k.object.at("spec", "template")}
	}
	wrong = append(wrong, k.object.get("metadata"))
	for _, v := range append(wrong, containers(spec)...) {
		for _, key := range podKeys {
			if at := v.get(key); at.there() {
				k.find("misplaced", at, "%s is not in the pod's spec", key)
			}
		}
	}
}
