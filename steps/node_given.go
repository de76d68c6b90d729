package steps

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"nodejoin/steps/kube"
)

// NodeGiven is what a Node had of labels and taints before a run, and which of them the
// plan had given it.
type NodeGiven struct {
	Labels map[string]string `json:"labels,omitempty"`
	Taints []kube.Taint      `json:"taints,omitempty"`
	// Notes are the annotations kube.LabelsOf and kube.TaintsOf, those that it had.
	Notes map[string]string `json:"notes,omitempty"`

	machine bool // see OfMachine
}

var givenNotes = []string{kube.LabelsOf, kube.TaintsOf}

// GivenTo reads it from a Node.
func GivenTo(n kube.Node) *NodeGiven {
	g := &NodeGiven{Labels: maps.Clone(n.Labels), Taints: slices.Clone(n.Taints), Notes: map[string]string{}}
	for _, a := range givenNotes {
		if v, ok := n.Annotations[a]; ok {
			g.Notes[a] = v
		}
	}
	return g
}

// Restore returns what makes the Node n as it was where a plan has changed it since: it
// removes what the plan gave and nobody has changed, and restores what the plan removed;
// nil = nothing. What anybody else has changed meanwhile stays. Another Restore finishes
// an interrupted call, as the notes of what is the plan's come last.
func (g *NodeGiven) Restore(n kube.Node) func(context.Context, kube.API) error {
	labels, noLabels := g.labels(n)
	taints, noTaints := g.taints(n)
	notes, noNotes := map[string]string{}, []string{}
	for _, note := range givenNotes {
		was, had := g.Notes[note]
		if have, has := n.Annotations[note]; had && have != was {
			notes[note] = was
		} else if has && !had {
			noNotes = append(noNotes, note)
		}
	}
	if len(labels)+len(noLabels)+len(taints)+len(noTaints)+len(notes)+len(noNotes) == 0 {
		return nil
	}
	return func(ctx context.Context, a kube.API) error {
		if err := a.SetLabels(ctx, n.Name, labels, noLabels); err != nil {
			return err
		}
		if err := a.SetTaints(ctx, n.Name, taints, noTaints); err != nil {
			return err
		}
		return a.SetAnnotations(ctx, n.Name, notes, noNotes)
	}
}

// OfMachine is what a machine says that its Node had. It takes no taint away, and does not decide on labels that
// a kubelet may not set itself: these say which pods come to a Node. The next apply gives the Node what the plan says.
func (g *NodeGiven) OfMachine() *NodeGiven {
	if g == nil {
		return nil
	}
	out := *g
	out.machine = true
	return &out
}

func (g *NodeGiven) labels(n kube.Node) (set map[string]string, remove []string) {
	set = map[string]string{}
	now, before := NotedLabels(n.Annotations), NotedLabels(g.Notes)
	if g.machine {
		maps.DeleteFunc(now, func(key, _ string) bool { return reservedLabel(key) })
		maps.DeleteFunc(before, func(key, _ string) bool { return reservedLabel(key) })
	}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		was, had := g.Labels[k]
		if have, has := n.Labels[k]; !has || have != now[k] {
			continue
		} else if !had {
			remove = append(remove, k)
		} else if was != have {
			set[k] = was
		}
	}
	for k := range before {
		was, had := g.Labels[k]
		if _, has := n.Labels[k]; had && !has {
			set[k] = was
		}
	}
	return set, remove
}

func (g *NodeGiven) taints(n kube.Node) (set, remove []kube.Taint) {
	now, before := NotedTaints(n.Annotations), NotedTaints(g.Notes)
	for _, t := range now {
		if !slices.Contains(n.Taints, t) {
			continue
		}
		if was := sameTaint(g.Taints, t); was == nil && !g.machine {
			remove = append(remove, t)
		} else if was != nil && *was != t {
			set = append(set, *was)
		}
	}
	for _, t := range before {
		if was := sameTaint(g.Taints, t); was != nil && sameTaint(n.Taints, t) == nil {
			set = append(set, *was)
		}
	}
	return set, remove
}

// NotedLabels are the labels that a plan gave, by the annotations of the Node; what cannot
// be read is not nodejoin's.
func NotedLabels(annotations map[string]string) map[string]string {
	noted := map[string]string{}
	_ = json.Unmarshal([]byte(annotations[kube.LabelsOf]), &noted)
	return noted
}

// NotedTaints is NotedLabels for taints.
func NotedTaints(annotations map[string]string) []kube.Taint {
	var noted []kube.Taint
	_ = json.Unmarshal([]byte(annotations[kube.TaintsOf]), &noted)
	return noted
}

// sameTaint finds the taint of the same key and effect; nil = none.
func sameTaint(list []kube.Taint, t kube.Taint) *kube.Taint {
	for i := range list {
		if TaintID(list[i]) == TaintID(t) {
			return &list[i]
		}
	}
	return nil
}

// TaintID is what makes two taints the same one: a Node holds one of each key and effect.
func TaintID(t kube.Taint) string { return t.Key + ":" + t.Effect }
