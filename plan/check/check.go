// Package check checks the manifests of pods and workloads against the Windows nodes of a plan: fields that
// Windows does not support, placements that never match, images of another build, Services that those nodes
// do not forward as asked. It reads text only and connects to nothing.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// Severity of a finding.
type Severity string

const (
	Error   Severity = "error"   // it will not run, or not where intended
	Warning Severity = "warning" // it may not run, or not as intended
)

// Finding is one problem of an object, at a position in a file.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line"`   // from 1
	Column   int      `json:"column"` // from 1
	Object   string   `json:"object"` // "Deployment default/web"
	Field    string   `json:"field"`  // "spec.template.spec.hostPID"
	Observed string   `json:"observed"`
	Why      string   `json:"why"`
	Remedy   string   `json:"remedy"`
}

// Cluster is what is known about where pods may run.
type Cluster struct {
	Kubernetes string // version of the nodes, "1.36.3"
	Runtime    string // "containerd", "docker" or "mcr"
	Nodes      []Node // the Windows nodes of the plan
	Classes    []Class
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

// File is a text to be checked.
type File struct {
	Name string
	Data []byte
}

// Report is the result of a check.
type Report struct {
	Findings []Finding
	Objects  int // objects in the files
	Pods     int // of them with pods
	Windows  int // of those, the ones that are for Windows
}

// Of returns the cluster as a plan describes it: its Windows nodes, and the RuntimeClasses that its manifests
// create.
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

// Run checks files. The RuntimeClasses in them count as well. An error is a file that cannot be parsed as
// manifests; the result then holds nothing about the others.
func Run(files []File, c Cluster) (Report, error) {
	var all []object
	var r Report
	for _, f := range files {
		list, err := read(f)
		if err != nil {
			return Report{}, err
		}
		if len(list) == 0 {
			return Report{}, fmt.Errorf("%s contains no object", f.Name)
		}
		all = append(all, list...)
	}
	c.Classes = slices.Clone(c.Classes)
	for _, o := range all {
		for _, class := range classesOf(o) {
			i := slices.IndexFunc(c.Classes, func(h Class) bool { return h.Name == class.Name })
			if i < 0 {
				c.Classes = append(c.Classes, class)
			} else {
				c.Classes[i] = class
			}
		}
	}
	for _, o := range all {
		r.Objects++
		k := checker{cluster: c, object: o, report: &r}
		k.twice(o.value)
		switch o.kind() {
		case "RuntimeClass":
			k.class()
		case "Service":
			k.service()
		}
		spec, ok := o.podSpec()
		if !ok {
			continue
		}
		r.Pods++
		k.pod(spec)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(slices.IndexFunc(files, func(f File) bool { return f.Name == a.File })-slices.IndexFunc(files,
			func(f File) bool { return f.Name == b.File }),
			a.Line-b.Line, a.Column-b.Column, strings.Compare(a.ID, b.ID))
	})
	return r, nil
}

// checker checks one object.
type checker struct {
	cluster Cluster
	object  object
	report  *Report
	osName  bool // spec.os.name says windows
}

// find adds a finding of a row at a value.
func (k *checker) find(id string, at value, seen string, args ...any) {
	k.findAs(rowOf(id).severity, id, at, seen, args...)
}

func (k *checker) findAs(s Severity, id string, at value, seen string, args ...any) {
	row := rowOf(id)
	line, column := at.position()
	k.report.Findings = append(k.report.Findings,
		Finding{ID: id, Severity: s, File: k.object.file, Line: line, Column: column, Object: k.object.String(),
			Field: at.path, Observed: fmt.Sprintf(seen, args...), Why: row.why, Remedy: row.remedy})
}

// pod checks the specification of pods.
func (k *checker) pod(spec value) {
	k.misplaced(spec)
	os := k.system(spec)
	k.osName = spec.get("os").get("name").str() == "windows"
	switch os {
	case contradicted:
		return // the rest is not worth reporting
	case "linux":
		k.linuxImages(spec)
		return
	case "":
		k.anywhere(spec)
		return
	}
	k.report.Windows++
	k.selector()
	k.fields(spec)
	k.images(spec, k.places(spec))
}
