// Package doctor finds the symptoms of a machine that has joined, and names what fixes them.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/preflight"
)

// DiagnoseRequest asks for the symptoms of a machine that has joined.
type DiagnoseRequest struct {
	Node    string       `json:"node"`
	Steps   []steps.Spec `json:"steps"` // of the node: how it should be
	Cluster ClusterView  `json:"cluster"`
	// PodCIDR are the references, in Steps, to the Node's pod CIDR.
	PodCIDR []string `json:"pod_cidr,omitempty"`
}

// ClusterView is what the controller read about one node in the cluster. A Why says why its part could not
// be read; then it is not known whether there is such a part.
type ClusterView struct {
	Node     *kube.Node     `json:"node,omitempty"` // nil: there is none, or NodeWhy
	NodeWhy  string         `json:"node_why,omitempty"`
	Pods     []kube.Pod     `json:"pods,omitempty"` // of the node
	PodsWhy  string         `json:"pods_why,omitempty"`
	Services []kube.Service `json:"services,omitempty"` // of the whole cluster
	// ServicesWhy, as the others.
	ServicesWhy string    `json:"services_why,omitempty"`
	Clock       time.Time `json:"clock"` // of the controller, when it asked
}

// DiagnoseReply answers a DiagnoseRequest.
type DiagnoseReply struct {
	Facts host.Facts `json:"facts"`
	// Joined reports whether nodejoin registered the node's kubelet here; if not, nothing was checked.
	Joined   bool      `json:"joined"`
	Symptoms []Symptom `json:"symptoms"`
	// Pause is the pause image in the runtime's configuration; "" if the plan does not write one. The
	// controller knows which builds of Windows an image supports. PauseFix are the steps that write it.
	Pause     string   `json:"pause,omitempty"`
	PauseFix  []string `json:"pause_fix,omitempty"`
	Mutations int64    `json:"mutations"`
}

// Symptom is a finding on a machine that has joined, with what fixes it.
type Symptom struct {
	steps.Finding
	// Fix names the steps of the plan that fix it.
	Fix []string `json:"fix,omitempty"`
	// Restart names the services of the plan to restart.
	Restart []string `json:"restart,omitempty"`
}

// Symptoms lists what can be found on a machine that has joined, in the order of the checks.
func Symptoms() []steps.Findable {
	var out []steps.Findable
	for _, s := range symptoms {
		out = append(out, steps.Findable{ID: s.id, Severity: s.severity, Doc: s.why})
	}
	return out
}

// symptom is a row of the table.
type symptom struct {
	id       string
	severity steps.Severity
	os       string // checked on this OS only; "" = on all
	why      string
	look     func(ctx context.Context, x *diagnosis) ([]finding, error)
}

// observed is what was found, and what to do about it.
type observed struct{ what, remedy string }

// finding is what a row of the table has found, with what fixes it.
type finding struct {
	observed
	fix, restart []string
}

// symptoms of a joined node, after the troubleshooting section of the Kubernetes guide to Windows nodes.
var symptoms = slices.Concat(serviceSymptoms, networkSymptoms, podSymptoms)

// diagnosis is one pass over the table.
type diagnosis struct {
	r host.Reader
	e *steps.Env
	c ClusterView
	// podCIDR are references to the Node's pod CIDR.
	podCIDR []string
	// steps of the node, with the known references filled in.
	steps []plannedStep
}

type plannedStep struct {
	id   string
	args any
	refs []string // to facts and outputs of other steps
}

// checkAgain is the remedy for a check that failed.
const checkAgain = "fix what prevented the check, and check again"

// Diagnose finds the symptoms of a machine that has joined. It changes nothing.
func Diagnose(ctx context.Context, r host.Reader, e *steps.Env, req DiagnoseRequest) (DiagnoseReply, error) {
	ex := &diagnosis{r: r, e: e, c: req.Cluster, podCIDR: req.PodCIDR}
	values := steps.FactValues(e.Facts)
	if n := req.Cluster.Node; n != nil && n.PodCIDR != "" {
		for _, ref := range req.PodCIDR {
			values[ref] = n.PodCIDR
		}
	}
	var waived []string
	for _, s := range req.Steps {
		args, _, err := kinds.Catalog().Open(s, values)
		if err != nil {
			return DiagnoseReply{}, err
		}
		ex.steps = append(ex.steps, plannedStep{s.ID, args, steps.ArgRefs(s.Args)})
		waived = append(waived, Waived(s)...)
	}
	reply := DiagnoseReply{Facts: e.Facts, Symptoms: []Symptom{}}
	var err error
	if reply.Joined, err = ex.joined(ctx); err != nil || !reply.Joined {
		return reply, err
	}
	for _, s := range symptoms {
		if s.os != "" && s.os != e.Facts.OS {
			continue
		}
		signs, err := s.look(ctx, ex)
		if ctx.Err() != nil {
			return reply, context.Cause(ctx)
		}
		base := steps.Finding{ID: s.id, Severity: s.severity, Why: s.why, Waived: slices.Contains(waived, s.id)}
		for _, g := range signs {
			f := base
			f.Observed, f.Remedy = g.what, g.remedy
			reply.Symptoms = append(reply.Symptoms, Symptom{f, g.fix, g.restart})
		}
		if err != nil {
			f := base.NotChecked(err, checkAgain)
			if f.Severity == steps.SeverityError {
				f.Severity = steps.SeverityWarning
			}
			reply.Symptoms = append(reply.Symptoms, Symptom{Finding: f})
		}
	}
	if reply.Pause, reply.PauseFix, err = ex.pause(ctx); err != nil {
		f := steps.Finding{ID: PauseImageSymptom, Severity: steps.SeverityWarning, Why: pauseWhy}
		reply.Symptoms = append(reply.Symptoms, Symptom{Finding: f.NotChecked(err, checkAgain)})
	}
	return reply, nil
}

// joined reports whether nodejoin registered the node's kubelet.
func (x *diagnosis) joined(ctx context.Context) (bool, error) {
	s, _, ok := x.service("kubelet")
	if !ok {
		return false, nil
	}
	have, err := x.r.Service(ctx, s.Name)
	if errors.Is(err, fs.ErrNotExist) {
		// The record knows it: then its absence is a finding.
		_, registered := x.e.Record.Lookup(kinds.ServiceKey(s.Name))
		return registered, nil
	}
	return err == nil && steps.Ours(have, x.e.Record), err
}

// of returns the steps of a kind with their ids, in the plan's order.
func of[T any](x *diagnosis) (ids []string, list []T) {
	for _, s := range x.steps {
		if v, ok := s.args.(T); ok {
			ids, list = append(ids, s.id), append(list, v)
		}
	}
	return ids, list
}

// using are the steps that take one of these references, those that take outputs of them,
// and services that are started from files among them; in the plan's order.
func (x *diagnosis) using(values []string) (ids []string) {
	var files []string
	for _, s := range x.steps { // a step comes after those whose outputs it takes
		takes := slices.ContainsFunc(s.refs, func(r string) bool {
			step, _, _ := strings.Cut(r, ".")
			return slices.Contains(values, r) || slices.Contains(ids, step)
		})
		if v, ok := s.args.(*kinds.Service); ok && len(v.Command) > 0 {
			takes = takes || slices.ContainsFunc(v.Watched(), func(p string) bool {
				return slices.Contains(files, host.PathKey(x.e.Facts.OS, p))
			})
		}
		if !takes {
			continue
		}
		ids = append(ids, s.id)
		if f, ok := s.args.(*kinds.File); ok {
			files = append(files, host.PathKey(x.e.Facts.OS, f.Path))
		}
	}
	return ids
}

// service finds the step of a service that should run.
func (x *diagnosis) service(name string) (s *kinds.Service, id string, ok bool) {
	ids, list := of[*kinds.Service](x)
	for i, s := range list {
		if s.Name == name && s.Running() {
			return s, ids[i], true
		}
	}
	return nil, "", false
}

// file finds the step that writes a file.
func (x *diagnosis) file(path string) (f *kinds.File, id string, ok bool) {
	ids, list := of[*kinds.File](x)
	for i, f := range list {
		if host.PathKey(x.e.Facts.OS, f.Path) == host.PathKey(x.e.Facts.OS, path) {
			return f, ids[i], true
		}
	}
	return nil, "", false
}

// read returns a file of the machine; there is false if it is absent.
func (x *diagnosis) read(ctx context.Context, path string) (b []byte, there bool, err error) {
	f, err := host.ReadFile(ctx, x.r, path, host.MaxText)
	if err != nil || f == nil {
		return nil, false, err
	}
	if f.Truncated {
		return nil, true, fmt.Errorf("%s is larger than %s", path, host.FormatSize(host.MaxText))
	}
	return f.Content, true, nil
}

// registered returns a service of the machine; there is false if it is absent.
func (x *diagnosis) registered(ctx context.Context, name string) (svc host.Service, there bool, err error) {
	svc, err = x.r.Service(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return svc, false, nil
	}
	return svc, err == nil, err
}

// pauseLine is the assignment of the pause image in containerd's configuration:
// sandbox_image to schema 2, sandbox of pinned_images from schema 3 on (containerd
// docs/cri/config.md).
var pauseLine = regexp.MustCompile(`(?m)^\s*(?:sandbox_image|sandbox)\s*=\s*['"]([^'"]*)['"]`)

// pause returns the pause image in containerd's configuration, or in the kubelet's flag if the runtime is
// Docker, and the steps that write it.
func (x *diagnosis) pause(ctx context.Context) (image string, fix []string, err error) {
	_, runtime, ok := x.service("containerd")
	if !ok {
		have, _, err := x.registered(ctx, "kubelet")
		_, kubelet, _ := x.service("kubelet")
		image, _ = host.Flag(have.Command, "pod-infra-container-image")
		return image, []string{kubelet}, err
	}
	have, there, err := x.registered(ctx, "containerd")
	if err != nil || !there {
		return "", nil, err
	}
	path, _ := host.Flag(have.Command, "config")
	if path == "" {
		return "", nil, nil
	}
	b, _, err := x.read(ctx, path)
	m := pauseLine.FindSubmatch(b)
	if err != nil || m == nil {
		return "", nil, err
	}
	if _, file, ok := x.file(path); ok {
		fix = append(fix, file)
	}
	return string(m[1]), append(fix, runtime), nil
}

// asked is the error of a part of the cluster that could not be read, nil if it was read.
func asked(why string) error {
	if why == "" {
		return nil
	}
	return errors.New(why)
}

// jsonOf decodes any JSON.
func jsonOf(b []byte) (any, error) {
	var v any
	err := json.Unmarshal(b, &v)
	return v, err
}

// Waived are the ids of findings that a preflight step waives.
func Waived(s steps.Spec) []string {
	step, _, err := kinds.Catalog().Decode(s)
	if p, is := step.(*preflight.Preflight); err == nil && is {
		return p.Waive
	}
	return nil
}
