package check

// row is what can be found: an id, how bad it is, why it matters and what to do.
type row struct {
	id       string
	severity Severity
	why      string
	remedy   string
}

// Row is a row for people.
type Row struct {
	ID       string
	Severity Severity
	Why      string
}

// Rows lists what can be found.
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

// rows besides those of fields, which are in the table of fields.go.
var rows = append(fieldRows(), []row{
	{"any-os", Warning, "nothing says for which operating system its images are, so the scheduler may send it to a Windows node, where a Linux image cannot run",
		"write nodeSelector: {kubernetes.io/os: linux} (or windows) into the pod's spec, or give the Windows nodes a taint that it does not tolerate"},
	{"build-unknown", Warning, "a pod that is for one build of Windows runs on nodes of that build only, and the plan leaves open which these have",
		"say build = \"10.0.20348\" (or what the machines have) in the profile or node of the plan"},
	{"deprecated-label", Warning, "the label has a successor, and may be gone from the nodes of the next version", "write the successor"},
	{"empty-term", Error, "a nodeSelectorTerm without a requirement matches no node, so it does not stand for any", "give the term a requirement, or remove the affinity"},
	{"image-build", Error, "a container that shares the kernel of its node (process isolation) runs only where its base image has the build of that node's Windows",
		"take the image of the node's build, or send the pod to nodes of the image's build: with nodeSelector: {node.kubernetes.io/windows-build: BUILD} or a RuntimeClass of that build"},
	{"image-os", Error, "no Linux node can run an image for Windows", "send the pod to Windows nodes (nodeSelector: {kubernetes.io/os: windows}), or take the image for Linux"},
	{"key-twice", Error, "of a key that is there twice one value is refused or lost", "keep one"},
	{"misplaced", Error, "the field is no part of the object at this depth: the API server refuses it, or drops it and it has no effect", "move it into the specification of the pod, beside containers"},
	{"no-os", Error, "the image is for Windows, and nothing keeps the pod off Linux nodes, where it cannot run", "write nodeSelector: {kubernetes.io/os: windows} into the pod's spec, or the runtimeClassName of a class that selects it"},
	{"os-mismatch", Error, "spec.os.name and where the pod is sent name different operating systems, so that no kubelet takes it", "let both name the same"},
	{"pod-selector", Error, "the API server refuses a workload that does not select the pods of its own template", "write spec.selector.matchLabels with labels of spec.template.metadata.labels"},
	{"runtime-class", Warning, "neither the plan nor these files have the class, and pods of a class that the cluster does not have are refused",
		"check the name; the manifests block of a plan makes a class for each build with runtime_classes = true"},
	{"runtime-class-handler", Error, "the runtime of the nodes has no such handler, or the API server no such version of RuntimeClass, so that pods of the class do not start", "write what the plan's runtime and version have"},
	{"selector", Error, "no Windows node of the plan matches, so that the pod would wait for ever (Pending)", "select labels that nodes of the plan have"},
	{"selector-unknown", Warning, "the plan gives no Windows node this label; unless somebody else does, the pod waits for ever (Pending)", "give the nodes the label in the plan, or leave it out here"},
	{"service-affinity", Warning, "without it, clients that come over these nodes reach any pod of the Service, each time another", "take hosts with Windows Server 2022 or later, or keep what belongs to a client outside the pods"},
	{"service-affinity-timeout", Warning, "kube-proxy on Windows keeps a client with its pod without a time of its own", "leave timeoutSeconds out, and do not count on it"},
	{"service-preserve-destination", Warning, "these nodes replace the address that a client has called, so that the pods do not see it", "take hosts with Windows Server 2022 or later, or leave the annotation out"},
	{"taint", Error, "every Windows node that it could run on has a taint that it does not tolerate, so that the pod would wait for ever (Pending)", "add a toleration of the taint, or use a RuntimeClass that carries it"},
}...)
