package check

import (
	"slices"
	"strings"
)

// fields finds fields that Windows does not support.
func (k *checker) fields(spec value) {
	k.table(spec, podFields)
	k.hostProcess(spec)
	k.identities(spec)
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
