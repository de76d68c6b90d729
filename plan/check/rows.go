package check

import "slices"

// Row is a row for people.
type Row struct {
	ID       string
	Severity Severity
	Why      string
}

// Rows lists the possible findings.
func Rows() []Row {
	var out []Row
	for _, r := range rows {
		out = append(out, Row{r.id, r.severity, r.why})
	}
	return out
}

func rowOf(id string) row {
	for _, r := range rows {
		if r.id == id {
			return r
		}
	}
	panic("check: no row " + id)
}

// rows are all findings; those of single fields come from the tables of unsupported_fields.go.
var rows = append(fieldRows(), []row{
	{"any-os", Warning, "nothing names the operating system of its images, so the scheduler may send it to a Windows " +
		"node, where a Linux image cannot run",
		"write nodeSelector: {kubernetes.io/os: linux} (or windows) into the pod's spec, or give the Windows nodes a " +
			"taint that it does not tolerate"},
	{"build-unknown", Warning, "a pod for one build of Windows runs on nodes of that build only, and the plan does not " +
		"give their build",
		"set build = \"10.0.20348\" (or what the machines have) in the profile or node of the plan"},
	{"deprecated-label", Warning, "the label has a successor, and nodes of the next version may no longer have it",
		"use the successor"},
	{"empty-term", Error, "a nodeSelectorTerm without a requirement matches no node",
		"give the term a requirement, or remove the affinity"},
	{"hyper-v", Warning, "Kubernetes does not support containers with Hyper-V isolation; only the handler of " +
		"containerd exists, and the nodes need the Windows feature Hyper-V for it",
		"use the handler runhcs-wcow-process, or add feature \"Microsoft-Hyper-V\" to the plan and test your pods"},
	{"image-build", Error, "a container that shares the kernel of its node (process isolation) runs only where its " +
		"base image has the build of that node's Windows",
		"use the image of the node's build, or schedule the pod on nodes of the image's build: with nodeSelector: " +
			"{node.kubernetes.io/windows-build: BUILD} or a RuntimeClass of that build"},
	{"image-os", Error, "no Linux node can run an image for Windows",
		"schedule the pod on Windows nodes (nodeSelector: {kubernetes.io/os: windows}), or use the image for Linux"},
	{"key-twice", Error, "one value of a duplicate key is rejected or lost", "keep one"},
	{"misplaced", Error, "the field does not exist at this level: the API server rejects it, or drops it without effect",
		"move it into the pod's spec, beside containers"},
	{"no-os", Error, "the image is for Windows, and nothing keeps the pod off Linux nodes, where it cannot run",
		"write nodeSelector: {kubernetes.io/os: windows} into the pod's spec, or the runtimeClassName of a class that " +
			"selects it"},
	{"os-mismatch", Error, "spec.os.name and the pod's node selection name different operating systems, so no kubelet " +
		"accepts it", "name the same operating system in both"},
	{"pod-selector", Error, "the API server rejects a workload that does not select the pods of its own template",
		"write spec.selector.matchLabels with labels of spec.template.metadata.labels"},
	{"runtime-class", Warning, "neither the plan nor these files have the class, and pods of an unknown class are " +
		"rejected",
		"check the name; the manifests block of a plan creates a class for each build with runtime_classes = true"},
	{"runtime-class-handler", Error,
		"the runtime of the nodes has no such handler, or the API server no such version of RuntimeClass, so pods of the " +
			"class do not start", "use what the plan's runtime and version support"},
	{"selector", Error, "no Windows node of the plan matches, so the pod stays Pending",
		"select labels that nodes of the plan have"},
	{"selector-unknown", Warning,
		"the plan gives no Windows node this label; unless somebody else does, the pod stays Pending",
		"give the nodes the label in the plan, or leave it out here"},
	{"service-affinity", Warning,
		"without it, clients that connect through these nodes reach a different pod of the Service each time",
		"use hosts with Windows Server 2022 or later, or keep client state outside the pods"},
	{"service-affinity-timeout", Warning, "kube-proxy on Windows ignores the timeout of session affinity",
		"leave timeoutSeconds out, and do not rely on it"},
	{"service-preserve-destination", Warning, "these nodes replace the destination address, so the pods do not see it",
		"use hosts with Windows Server 2022 or later, or leave the annotation out"},
	{"taint", Error, "every Windows node that it could run on has a taint that it does not tolerate, so the pod stays " +
		"Pending", "add a toleration of the taint, or use a RuntimeClass that carries it"},
}...)

func fieldRows() []row {
	var out []row
	for _, f := range slices.Concat(podFields, containerFields) {
		if f.why != "" {
			out = append(out, row{f.id, f.severity, f.why, f.remedy})
		}
	}
	return slices.Concat(out, otherRows, volumeRows, hostProcessRows, identityRows)
}

// hostProcessRows are findings about HostProcess containers, the privileged containers of Windows (kubernetes
// pkg/apis/core/validation/validation.go, validateWindowsHostProcessPod).
var hostProcessRows = []row{
	{"host-network", Error, "only HostProcess containers can use the host's network on Windows",
		"remove hostNetwork, or make all containers HostProcess (windowsOptions: {hostProcess: true})"},
	{"host-process-mixed", Error, "if one container is HostProcess all must be; the API server rejects others",
		"write windowsOptions: {hostProcess: true} into the pod's securityContext, and no hostProcess into those of its " +
			"containers"},
	{"host-process-network", Error,
		"a HostProcess container runs in the host's network; the API server rejects it without hostNetwork: true",
		"write hostNetwork: true into the pod's spec"},
	{"host-process-runtime", Error, "only containerd supports HostProcess containers",
		"use containerd as the runtime of the nodes"},
}

// volumeRows are findings about volumes.
var volumeRows = []row{
	{"memory-volume", Error, "Windows has no file system in memory", "leave medium out: the volume is on disk"},
	{"nfs", Error, "Windows nodes mount no NFS volumes by themselves", "use SMB with its CSI driver, or another volume"},
	{"volume-type", Error, "the kubelet mounts volumes of this type on Linux only",
		"use a volume of a CSI driver for Windows"},
	{"flex-volume", Warning, "FlexVolume is deprecated since Kubernetes 1.23, and its driver must be a program for " +
		"Windows in the kubelet's folder of volume plugins on each node", "use the CSI driver of the storage"},
	{"persistent-volume", Warning, "Windows nodes mount no volumes of this type",
		"use a volume of a CSI driver for Windows, or keep pods for Windows off it"},
	{"host-path", Error, "Windows nodes have no such file, folder or device",
		"remove the volume, or name what Windows nodes have: a folder, or a pipe (\\\\.\\pipe\\NAME)"},
	{"default-mode", Warning, "Windows has no file modes; files in the volume have the access rights of its folder",
		"remove defaultMode and mode"},
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
