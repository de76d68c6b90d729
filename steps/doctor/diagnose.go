// Package doctor finds the symptoms of a machine that has joined, and names what fixes them.
package doctor

import (
	"context"
	"errors"
	"io/fs"
	"regexp"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
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

// Fixable reports whether steps of the plan fix it.
func (s Symptom) Fixable() bool { return !s.Waived && len(s.Fix)+len(s.Restart) > 0 }

// Symptoms lists what can be found on a machine that has joined, in the order of the checks.
func Symptoms() []steps.Findable {
	var out []steps.Findable
	for _, s := range symptoms {
		out = append(out, steps.Findable{ID: s.id, Severity: s.severity, Doc: s.why})
	}
	return append(out, controllerSymptoms...)
}

// symptoms of a joined node, after the troubleshooting section of the Kubernetes guide to Windows nodes.
var symptoms = slices.Concat(serviceSymptoms, credentialSymptoms, networkSymptoms,
	podSymptoms)

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
		args, kind, err := kinds.Catalog().Open(s, values)
		if err != nil {
			return DiagnoseReply{}, err
		}
		ex.steps = append(ex.steps, plannedStep{s.ID, kind, args, steps.ArgRefs(s.Args)})
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

// Waived are the ids of findings that a preflight step waives.
func Waived(s steps.Spec) []string {
	step, _, err := kinds.Catalog().Decode(s)
	if p, is := step.(*preflight.Preflight); err == nil && is {
		return p.Waive
	}
	return nil
}
