// Package verify sees whether nodes that have joined do what nodes are for: it runs the
// sample web server of the Kubernetes guides on them, asks it in all the ways in which
// pods and the outside may, and takes everything away again. It changes nothing but a
// namespace of its own.
package verify

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

// Report is what a Run came to.
type Report struct {
	Namespace string // that was made; "" = none was needed
	Results   []Result
	Removed   []string // namespaces of earlier runs that did not end
	Others    []string // namespaces of other runs that are at work
	Remains   string   // why Namespace, or that of an earlier run, is not gone
}

// Failed counts flows that failed.
func (r *Report) Failed() int {
	n := 0
	for _, f := range r.Results {
		if f.Status == Fail {
			n++
		}
	}
	return n
}

const (
	// Label is on every namespace of a verify; its value is nothing.
	Label = "nodejoin.dev/verify"
	// holderNote and untilNote are annotations: who runs it, and when it has ended at
	// the latest (RFC 3339).
	holderNote = "nodejoin.dev/verify-holder"
	untilNote  = "nodejoin.dev/verify-until"
	prefix     = "nodejoin-verify-"
)

// Run verifies. Whatever happens, and also when ctx ends meanwhile, the namespace is
// taken away before it returns; its error is why the cluster could not be asked, or the
// cause of ctx, and then the report has what is known so far.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &run{Options: o, results: map[string]map[string]Result{}, nodes: map[string]kube.Node{}}
	report := &Report{}
	list, err := o.API.Nodes(ctx)
	if err != nil {
		return report, err
	}
	for _, n := range list {
		r.nodes[n.Name] = n
	}
	if err := r.clearEarlier(ctx, report); err != nil {
		return report, err
	}
	ready := 0
	for _, t := range o.Targets {
		if r.node(t) {
			ready++
		}
	}
	if ready > 0 {
		err = r.inNamespace(ctx, report)
	}
	report.Results = r.sorted()
	return report, err
}

// inNamespace makes the namespace, does what is done in it, and takes it away.
func (r *run) inNamespace(ctx context.Context, report *Report) error {
	r.ns = prefix + strings.ToLower(rand.Text()[:8])
	until := time.Now().Add(2*r.Start + 3*r.Answer + r.Clean).UTC().Format(time.RFC3339)
	level := "baseline"
	if slices.ContainsFunc(r.Targets, func(t Target) bool { return r.nodes[t.Node].Labels[osLabel] == "linux" }) {
		level = "privileged" // for the pods that ask from Linux nodes themselves
	}
	ns := kube.Namespace{Name: r.ns, Labels: map[string]string{Label: "", "pod-security.kubernetes.io/enforce": level},
		Annotations: map[string]string{holderNote: r.Holder, untilNote: until}}
	made, cancel := context.WithTimeoutCause(ctx, r.Answer, fmt.Errorf("it was not ready for pods after %s", r.Answer))
	err := r.API.MakeNamespace(made, ns)
	cancel()
	report.Namespace = r.ns
	if err == nil {
		err = r.flows(ctx)
	}
	if remains := r.clear(context.WithoutCancel(ctx), r.ns); remains != "" {
		report.Remains = remains
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// clearEarlier takes away the namespaces of runs that did not end by themselves.
func (r *run) clearEarlier(ctx context.Context, report *Report) error {
	list, err := r.API.Namespaces(ctx, Label)
	if err != nil {
		return err
	}
	for _, n := range list {
		until, err := time.Parse(time.RFC3339, n.Annotations[untilNote])
		over := err == nil && time.Now().After(until)
		if !strings.HasPrefix(n.Name, prefix) || !n.Ending && !over &&
			(r.Gone == nil || !r.Gone(n.Annotations[holderNote])) {
			report.Others = append(report.Others, n.Name)
			continue
		}
		if remains := r.clear(ctx, n.Name); remains != "" {
			report.Remains = remains
			continue
		}
		report.Removed = append(report.Removed, n.Name)
	}
	return context.Cause(ctx)
}

// clear deletes a namespace and waits until it is gone. After half of the time pods are
// not waited for any more whose kubelet does not end them. It gives what remains, "" = nothing.
func (r *run) clear(ctx context.Context, name string) (remains string) {
	ctx, cancel := context.WithTimeout(ctx, r.Clean)
	defer cancel()
	began, forced := time.Now(), false
	last := "its deletion was asked for"
	_ = wait.Until(ctx, lookMost, func() (bool, error) {
		if err := r.API.EndNamespace(ctx, name); err != nil {
			last = err.Error() // it may not exist, which the list shows
		}
		if !forced && time.Since(began) > r.Clean/2 {
			forced = true
			if err := r.API.EndPods(ctx, name); err != nil {
				last = err.Error()
			}
		}
		list, err := r.API.Namespaces(ctx, Label)
		if err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // asked again until the time is over
		}
		i := slices.IndexFunc(list, func(n kube.Namespace) bool { return n.Name == name })
		if i < 0 {
			last = ""
			return true, nil
		}
		if list[i].Remains != "" {
			last = list[i].Remains
		}
		return false, nil
	})
	if last == "" {
		return ""
	}
	return fmt.Sprintf("the namespace %s is not gone after %s: %s", name, r.Clean, last)
}

// node judges the Node of a target, and reports whether pods can be tried on it.
func (r *run) node(t Target) bool {
	n, there := r.nodes[t.Node]
	res, why := Result{Node: t.Node, Flow: "node", Status: Pass, Detail: "Ready, kubelet " + n.KubeletVersion}, ""
	switch {
	case !there:
		res.Status, res.Detail, why = Fail, "the cluster has no Node "+t.Node, "there is no Node"
	case !n.Ready:
		res.Status, res.Detail, why = Fail, "the Node is not Ready: "+n.ReadyReason, "the Node is not Ready"
	case t.Version != "" && strings.TrimPrefix(n.KubeletVersion, "v") != t.Version:
		res.Status, res.Detail = Fail, fmt.Sprintf("Ready, but its kubelet is %s, and the plan says %s",
			n.KubeletVersion, t.Version)
	}
	if why == "" && n.Unschedulable {
		why = "the Node is cordoned and takes no pods"
	}
	r.done(res)
	if why != "" {
		for _, f := range Flows[1:] {
			r.not(t.Node, f.Name, why)
		}
	}
	return why == ""
}

// sorted are the results in the order of targets and flows.
func (r *run) sorted() (out []Result) {
	for _, t := range r.Targets {
		for _, f := range Flows {
			if res, ok := r.results[t.Node][f.Name]; ok {
				out = append(out, res)
			}
		}
	}
	return out
}
