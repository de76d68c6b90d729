package check

import (
	"slices"
	"strings"
)

// field is a field that Windows does not have.
type field struct {
	path string // of the pod's spec, or of the container
	id   string
	// api: the API server refuses it in a pod with spec.os.name: windows (kubernetes
	// pkg/apis/core/validation/validation.go, validateWindows; the list of the documents,
	// "Pod OS").
	api      bool
	severity Severity         // where the API server lets it through
	wrong    func(value) bool // and there is something to be said of it
	why      string
	remedy   string
}

func set(v value) bool    { return v.there() }
func isTrue(v value) bool { return v.yes() }
func listed(v value) bool { return v.there() && !v.empty() }

// falseIsUnset are fields whose false the API server does not tell from nothing.
var falseIsUnset = map[string]bool{"hostPID": true, "hostIPC": true}

const (
	linuxOnly = "remove it; it is for Linux"
	userName  = "write windowsOptions: {runAsUserName: \"ContainerUser\"} instead"
)

// podFields are those of a pod's spec. Sources: the lists of "Windows containers in
// Kubernetes" and "Guide for scheduling Windows containers" (kubernetes.io), which say
// why; validateWindows, which refuses.
var podFields = []field{
	{"hostPID", "host-pid", true, Warning, isTrue, "Windows shares no namespaces of the host; the field is not looked at", linuxOnly},
	{"hostIPC", "host-ipc", true, Warning, isTrue, "Windows shares no namespaces of the host; the field is not looked at", linuxOnly},
	{"hostUsers", "host-users", true, Warning, func(v value) bool { return v.no() }, "Windows has no user namespaces", linuxOnly},
	{"shareProcessNamespace", "share-process-namespace", true, Warning, isTrue, "Windows containers cannot share their processes or root file systems", linuxOnly},
	{"dnsPolicy", "dns-host-network", false, Error, func(v value) bool { return v.str() == "ClusterFirstWithHostNet" }, "it is for pods in the host's network, which Windows has for HostProcess containers only", "write ClusterFirst, or leave it out"},
	{"securityContext.seLinuxOptions", "se-linux", true, Warning, set, "Windows has no SELinux", linuxOnly},
	{"securityContext.seccompProfile", "seccomp", true, Warning, set, "Windows has no seccomp", linuxOnly},
	{"securityContext.appArmorProfile", "app-armor", true, Warning, set, "Windows has no AppArmor", linuxOnly},
	{"securityContext.fsGroup", "fs-group", true, Warning, set, "Windows has no numeric groups; volumes keep their access", linuxOnly},
	{"securityContext.fsGroupChangePolicy", "fs-group-change-policy", true, Warning, set, "Windows has no numeric groups; volumes keep their access", linuxOnly},
	{"securityContext.sysctls", "sysctls", true, Warning, listed, "Windows has no sysctls", linuxOnly},
	{"securityContext.runAsUser", "run-as-user", true, Warning, set, "Windows has no numeric users", userName},
	{"securityContext.runAsGroup", "run-as-group", true, Warning, set, "Windows has no numeric groups", linuxOnly},
	{"securityContext.supplementalGroups", "supplemental-groups", true, Warning, listed, "Windows has no numeric groups", linuxOnly},
	{"securityContext.supplementalGroupsPolicy", "supplemental-groups-policy", true, Warning, set, "Windows has no numeric groups", linuxOnly},
}

// containerFields are those of a container.
var containerFields = []field{
	{"securityContext.seLinuxOptions", "se-linux", true, Warning, set, "", ""},
	{"securityContext.seccompProfile", "seccomp", true, Warning, set, "", ""},
	{"securityContext.appArmorProfile", "app-armor", true, Warning, set, "", ""},
	{"securityContext.runAsUser", "run-as-user", true, Warning, set, "", ""},
	{"securityContext.runAsGroup", "run-as-group", true, Warning, set, "", ""},
	{"securityContext.capabilities", "capabilities", true, Warning, set, "Windows has no POSIX capabilities", linuxOnly},
	{"securityContext.readOnlyRootFilesystem", "read-only-root", true, Warning, isTrue, "system processes of a Windows container write to its registry and file system, so it is always writable", linuxOnly},
	{"securityContext.privileged", "privileged", true, Warning, isTrue, "Windows has no privileged containers; HostProcess containers stand for them", "remove it, or write windowsOptions: {hostProcess: true, runAsUserName: \"NT AUTHORITY\\\\SYSTEM\"} with hostNetwork: true"},
	{"securityContext.allowPrivilegeEscalation", "privilege-escalation", true, Warning, isTrue, "it is wired to the capabilities of Linux", linuxOnly},
	{"securityContext.procMount", "proc-mount", true, Warning, set, "Windows has no /proc", linuxOnly},
	{"volumeDevices", "volume-devices", false, Error, listed, "Windows attaches no raw block devices to containers", "mount a volume with a file system"},
}

// otherRows are of fields that are looked for in lists.
var otherRows = []row{
	{"host-network", Error, "Windows has the host's network for HostProcess containers only", "remove hostNetwork, or make all containers HostProcess (windowsOptions: {hostProcess: true})"},
	{"mount-propagation", Error, "Windows propagates no mounts", "remove mountPropagation"},
	{"sub-path", Warning, "Windows mounts whole volumes; a single file cannot be mounted, and subPath has its limits", "mount the whole volume in a folder of its own"},
	{"memory-volume", Error, "Windows has no file system in memory", "leave medium out: the volume lies on the disk"},
	{"nfs", Error, "Windows nodes mount no NFS volumes by themselves", "use SMB by its CSI driver, or another volume"},
	{"default-mode", Warning, "Windows has no modes of files; those in the volume have the access of its folder", "remove defaultMode and mode"},
	{"huge-pages", Error, "Windows containers have no huge pages", "remove the resource"},
	{"termination-grace", Warning, "under Docker the process gets CTRL_SHUTDOWN_EVENT and then some seconds, whatever is written", "use containerd, or do not depend on it"},
}

func fieldRows() []row {
	var out []row
	for _, f := range slices.Concat(podFields, containerFields) {
		if f.why != "" {
			out = append(out, row{f.id, f.severity, f.why, f.remedy})
		}
	}
	return append(out, otherRows...)
}

// containers are all containers of a pod.
func containers(spec value) []value {
	return slices.Concat(spec.get("initContainers").list(), spec.get("containers").list(), spec.get("ephemeralContainers").list())
}

// fields looks for what Windows does not have.
func (k *checker) fields(spec value) {
	k.table(spec, podFields)
	k.hostNetwork(spec)
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
	for _, v := range spec.get("volumes").list() {
		if m := v.at("emptyDir", "medium"); m.str() != "" {
			k.find("memory-volume", m, "the medium of the volume is %q", m.str())
		}
		if n := v.get("nfs"); n.there() {
			k.find("nfs", n, "the volume %s is on NFS", v.get("name").str())
		}
		for _, sort := range []string{"secret", "configMap", "projected", "downwardAPI"} {
			if m := v.at(sort, "defaultMode"); m.there() {
				k.find("default-mode", m, "defaultMode is %s", m.str())
			}
		}
	}
}

func (k *checker) table(in value, table []field) {
	for _, f := range table {
		v := in.at(strings.Split(f.path, ".")...)
		refused := f.api && k.osName && v.there() && (!falseIsUnset[f.path] || v.yes())
		if !v.there() || !refused && !f.wrong(v) {
			continue
		}
		severity, seen := f.severity, "the pod has "+f.path
		if refused {
			severity, seen = Error, seen+", and with spec.os.name windows the API server refuses it"
		}
		if s := v.str(); s != "" {
			seen = strings.Replace(seen, f.path, f.path+": "+s, 1)
		}
		k.findAs(severity, f.id, v, "%s", seen)
	}
}

// hostNetwork goes with HostProcess containers, and these with it.
func (k *checker) hostNetwork(spec value) {
	of := func(v value) bool { return v.at("securityContext", "windowsOptions", "hostProcess").yes() }
	process := of(spec)
	for _, c := range containers(spec) {
		process = process || of(c)
	}
	switch v := spec.get("hostNetwork"); {
	case process && !v.yes():
		at := spec.get("securityContext")
		if !at.there() {
			at = spec.get("containers")
		}
		k.find("host-process-network", at, "the pod is HostProcess and not in the host's network")
	case !process && v.yes():
		k.find("host-network", v, "the pod is in the host's network, and no container is HostProcess")
	}
}

// podKeys are fields of a pod's spec that say where it runs; they are often written
// beside it.
var podKeys = []string{"nodeSelector", "tolerations", "affinity", "runtimeClassName", "nodeName"}

// misplaced finds them where they have no effect: in the specification of the workload,
// in its template, in a container.
func (k *checker) misplaced(spec value) {
	var wrong []value
	switch k.object.kind() {
	case "Pod":
		wrong = []value{k.object.value}
	case "PodTemplate":
		wrong = []value{k.object.value, k.object.get("template")}
	case "CronJob":
		wrong = []value{k.object.value, k.object.get("spec"), k.object.at("spec", "jobTemplate"), k.object.at("spec", "jobTemplate", "spec"), k.object.at("spec", "jobTemplate", "spec", "template")}
	default:
		wrong = []value{k.object.value, k.object.get("spec"), k.object.at("spec", "template")}
	}
	wrong = append(wrong, k.object.get("metadata"))
	for _, v := range append(wrong, containers(spec)...) {
		for _, key := range podKeys {
			if at := v.get(key); at.there() {
				k.find("misplaced", at, "%s is not in the specification of the pod", key)
			}
		}
	}
}
