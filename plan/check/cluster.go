package check

import (
	"slices"
	"strings"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// Cluster is what is known about where pods may run.
type Cluster struct {
	Kubernetes string // version of the nodes, "1.36.3"
	Runtime    string // "containerd", "docker" or "mcr"
	Nodes      []Node // the Windows nodes of the plan
	Classes    []Class
	Accounts   []string // names of GMSACredentialSpecs
}

// Node is a Windows node as the scheduler sees it.
type Node struct {
	Name   string
	Build  string // as its label has it, "10.0.20348"; "" = unknown
	Labels map[string]string
	Taints []kube.Taint
}

// Class is a RuntimeClass.
type Class struct {
	Name, Handler string
	NodeSelector  map[string]string
	Tolerations   []toleration
}

// Of returns the cluster as a plan describes it: its Windows nodes, and the RuntimeClasses and
// GMSACredentialSpecs that its manifests create.
func Of(c *plan.Compiled) Cluster {
	var out Cluster
	if c.Cluster != nil {
		out.Kubernetes, out.Runtime = c.Cluster.Version, c.Cluster.Runtime
	}
	texts := map[string]bool{}
	for _, m := range c.Manifests {
		texts[m.Content] = true
	}
	for _, n := range c.Nodes {
		for _, s := range n.Steps {
			if m, ok := manifestOf(s); ok {
				texts[m] = true
			}
		}
		if n.OS != "windows" {
			continue
		}
		build := strings.Join(strings.SplitN(n.Build, ".", 4)[:min(3, strings.Count(n.Build, ".")+1)], ".")
		labels := map[string]string{"kubernetes.io/os": "windows", "kubernetes.io/arch": n.Arch,
			"kubernetes.io/hostname": n.Name,
			"beta.kubernetes.io/os":  "windows", "beta.kubernetes.io/arch": n.Arch}
		if build != "" {
			labels[buildLabel] = build
		}
		for k, v := range n.Labels {
			labels[k] = v
		}
		out.Nodes = append(out.Nodes, Node{Name: n.Name, Build: build, Labels: labels, Taints: n.Taints})
	}
	var list []string
	for text := range texts {
		list = append(list, text)
	}
	slices.Sort(list)
	for _, text := range list {
		objects, err := read(File{Data: []byte(text)})
		if err != nil {
			continue // the compiler has checked the plan
		}
		for _, o := range objects {
			out.Classes = append(out.Classes, classesOf(o)...)
			if o.kind() == "GMSACredentialSpec" {
				out.Accounts = append(out.Accounts, o.at("metadata", "name").str())
			}
		}
	}
	return out
}

func manifestOf(s steps.Spec) (text string, ok bool) {
	m, ok := kinds.As[kinds.Manifest](s)
	if !ok || steps.HasRef(m.Content) {
		return "", false
	}
	return m.Content, true
}

// toleration of a pod or of a RuntimeClass.
type toleration struct{ Key, Operator, Value, Effect string }

func tolerations(v value) []toleration {
	var out []toleration
	for _, t := range v.list() {
		out = append(out, toleration{t.get("key").str(), t.get("operator").str(), t.get("value").str(),
			t.get("effect").str()})
	}
	return out
}

// tolerates is k8s.io/component-helpers scheduling/corev1 ToleratesTaint.
func (t toleration) tolerates(x kube.Taint) bool {
	switch {
	case t.Effect != "" && t.Effect != x.Effect, t.Key != "" && t.Key != x.Key:
		return false
	case t.Operator == "Exists":
		return true
	}
	return t.Key != "" && t.Value == x.Value // Equal, which is the default
}

const (
	osLabel     = "kubernetes.io/os"
	betaOSLabel = "beta.kubernetes.io/os"
	buildLabel  = "node.kubernetes.io/windows-build"
)

// classesOf returns the RuntimeClass that an object is.
func classesOf(o object) []Class {
	if o.kind() != "RuntimeClass" {
		return nil
	}
	c := Class{Name: o.at("metadata", "name").str(), Handler: o.get("handler").str(), NodeSelector: map[string]string{},
		Tolerations: tolerations(o.at("scheduling", "tolerations"))}
	for _, p := range o.at("scheduling", "nodeSelector").pairs() {
		c.NodeSelector[p.key] = p.str()
	}
	return []Class{c}
}
