package saved

import (
	"fmt"

	"nodejoin/steps"
)

// InputChanges lists what has changed in the plan, without connecting to hosts: plan files, data, the
// cluster, nodes and steps. It returns nothing if all is the same.
func (p *Plan) InputChanges(now *Plan) []string {
	var out []string
	if p.Version != now.Version {
		out = append(out, fmt.Sprintf("it was written by nodejoin %s; this is %s", p.Version, now.Version))
	}
	compare(p.Files, now.Files, func(f File) string { return f.Name },
		func(name, what string) { out = append(out, "the plan file "+name+" "+what) },
		func(a, b File) {
			if a.SHA256 != b.SHA256 {
				out = append(out, "the plan file "+a.Name+" was changed")
			}
		})
	compare(p.Data, now.Data, func(d Data) string { return d.Address },
		func(name, what string) { out = append(out, name+" "+what) },
		func(a, b Data) {
			if a.SHA256 != b.SHA256 {
				out = append(out, "the value of "+a.Address+" was changed")
			}
		})
	if p.Cluster != now.Cluster {
		out = append(out, "the settings of the cluster were changed")
	}
	compare(p.Nodes, now.Nodes, func(n Node) string { return n.Address },
		func(name, what string) { out = append(out, name+" "+what) },
		func(a, b Node) {
			if a.Reach != b.Reach || a.Name != b.Name {
				out = append(out, a.Address+" is another machine or is connected to differently")
			}
			compare(a.Steps, b.Steps, func(s Step) string { return s.ID },
				func(id, what string) { out = append(out, a.Address+"."+id+" "+what) },
				func(x, y Step) {
					if x.Spec != y.Spec {
						out = append(out, a.Address+"."+x.ID+": the plan has changed")
					}
				})
		})
	return out
}

// HostChanges lists what has changed on the hosts and in the cluster. InputChanges must have found nothing.
func (p *Plan) HostChanges(now *Plan) []string {
	var out []string
	compare(p.Nodes, now.Nodes, func(n Node) string { return n.Address }, func(string, string) {}, func(a, b Node) {
		if a.Facts != b.Facts {
			out = append(out, a.Address+": it is another machine, or its name, address or system has changed")
		}
		compare(a.Steps, b.Steps, func(s Step) string { return s.ID }, func(string, string) {}, func(x, y Step) {
			switch at := a.Address + "." + x.ID; {
			case x.Action != y.Action:
				out = append(out, fmt.Sprintf("%s: planned %s, now %s", at, word(x.Action), word(y.Action)))
			case x.Change != y.Change:
				out = append(out, at+": its state has changed since the plan was shown")
			}
		})
		compare(a.Removals, b.Removals, func(key string) string { return key }, func(key, what string) {
			out = append(out, fmt.Sprintf("%s: the removal of %s %s", a.Address, key, what))
		}, func(string, string) {})
	})
	compare(p.Objects, now.Objects, func(name string) string { return name }, func(name, what string) {
		out = append(out, fmt.Sprintf("the cluster: the removal of %s %s", name, what))
	}, func(string, string) {})
	return out
}

func word(a steps.Action) string {
	if a == steps.ActionNone {
		return "nothing to do"
	}
	return string(a)
}

// compare walks two lists by name: the entries of was in their order, then the new ones.
func compare[T any](was, now []T, name func(T) string, only func(name, what string), both func(was, now T)) {
	have := map[string]T{}
	for _, n := range now {
		have[name(n)] = n
	}
	known := map[string]bool{}
	for _, w := range was {
		known[name(w)] = true
		if n, ok := have[name(w)]; ok {
			both(w, n)
		} else {
			only(name(w), "is gone")
		}
	}
	for _, n := range now {
		if !known[name(n)] {
			only(name(n), "is new")
		}
	}
}
