package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"nodejoin/plan"
	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport/wire"
)

// Diagnosis is what is wrong with one host.
type Diagnosis struct {
	Node  plan.Node
	Facts host.Facts
	// Joined: symptoms of a joined machine were looked for.
	Joined bool
	// Found are the findings of the preflight, then the symptoms.
	Found     []doctor.Symptom
	Err       error // the host could not be checked
	Mutations int64 // mutating calls on the host: always 0
}

// Diagnose makes the preflight checks of every host, and looks for the symptoms of one that has joined. If
// the cluster does not answer, each check that needs it is a finding. Nothing is changed anywhere.
func (s *Session) Diagnose(ctx context.Context) []Diagnosis {
	out := make([]Diagnosis, len(s.hosts))
	index := s.index()
	view := s.viewServices(ctx)
	s.each(ctx, func(ctx context.Context, h *hostRun) { out[index[h]] = diagnosing{h}.run(ctx, view) },
		func(h *hostRun, err error) { out[index[h]] = Diagnosis{Node: h.node, Err: err} })
	return out
}

// viewServices reads the part that is the same for all nodes.
func (s *Session) viewServices(ctx context.Context) (v doctor.ClusterView) {
	v.Clock = time.Now()
	if s.plan.Cluster == nil {
		v.ServicesWhy = "the plan names no cluster"
		return v
	}
	err := s.open(ctx)
	if err == nil {
		v.Services, err = s.api.Services(ctx)
	}
	v.ServicesWhy = why(err)
	return v
}

// why is an error as a text; "" for none.
func why(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// diagnosing is the diagnosis of one host.
type diagnosing struct{ *hostRun }

// viewNode adds the part of one node. An API server that did not answer is not asked again.
func (h diagnosing) viewNode(ctx context.Context, v doctor.ClusterView) doctor.ClusterView {
	if h.api == nil || h.openErr != nil {
		v.NodeWhy, v.PodsWhy = v.ServicesWhy, v.ServicesWhy
		return v
	}
	n, err := h.api.Node(ctx, h.node.Name)
	switch {
	case err == nil:
		v.Node = &n
	case !errors.Is(err, fs.ErrNotExist):
		v.NodeWhy, v.PodsWhy = why(err), why(err)
		if errors.Is(err, kube.ErrUnreachable) {
			return v
		}
	}
	v.Pods, err = h.api.Pods(ctx, h.node.Name)
	v.PodsWhy = why(err)
	if v.Node != nil && err == nil {
		v.DaemonSets, err = h.api.DaemonSets(ctx, *v.Node)
		v.DaemonSetsWhy = why(err)
	}
	return v
}

func (h diagnosing) run(ctx context.Context, view doctor.ClusterView) (d Diagnosis) {
	d.Node = h.node
	defer func() {
		if d.Err != nil {
			h.state("failed", "")
		} else {
			h.state("done", "")
		}
	}()
	var flight []steps.Spec
	for _, s := range h.node.Steps {
		if kinds.Of(s).Finds {
			flight = append(flight, s)
		}
	}
	values := map[string]string{}
	if h.api != nil && h.openErr == nil {
		if _, err := h.cluster(ctx); err == nil {
			values["cluster.ca"] = h.info.CA
		}
	}
	check, err := ask(ctx, h.hostRun, "checking", wire.Check, executor.Request{Node: h.node.Name, Steps: flight,
		Values: values})
	d.Err = err
	if err != nil {
		return d
	}
	d.Facts, d.Mutations = check.Facts, check.Mutations
	for _, r := range check.Results {
		for _, f := range r.Change.Findings {
			d.Found = append(d.Found, doctor.Symptom{Finding: f})
		}
		if r.Err != nil && len(r.Change.Findings) == 0 {
			d.Err = r.Err
			return d
		}
	}
	view = h.viewNode(ctx, view)
	req := doctor.DiagnoseRequest{Node: h.node.Name, Steps: h.specs(steps.OnHost), Cluster: view,
		PodCIDR: podCIDRs(h.node)}
	diagnosis, err := ask(ctx, h.hostRun, "checking", wire.Diagnose, req)
	d.Err = err
	if err != nil {
		return d
	}
	d.Joined, d.Mutations = diagnosis.Joined, diagnosis.Mutations
	d.Found = append(d.Found, diagnosis.Symptoms...)
	d.Found = append(d.Found, h.pauseSymptoms(diagnosis)...)
	if d.Joined {
		d.Found = append(d.Found, doctor.KubeProxies(req, diagnosis.Facts.OS)...)
	}
	return d
}

// podCIDRs are the references to the Node's pod CIDR that the steps of a node may hold.
func podCIDRs(n plan.Node) (refs []string) {
	for _, s := range n.Steps {
		if slices.Contains(kinds.Of(s).Outputs, kinds.PodCIDR) {
			refs = append(refs, s.ID+"."+kinds.PodCIDR)
		}
	}
	return refs
}

// pauseSymptoms judges the pause image of a Windows machine.
func (h diagnosing) pauseSymptoms(diagnosis doctor.DiagnoseReply) (out []doctor.Symptom) {
	if diagnosis.Pause == "" || diagnosis.Facts.OS != "windows" {
		return nil
	}
	add := func(id, seen, remedy string) {
		list := doctor.Symptoms()
		f := list[slices.IndexFunc(list, func(f steps.Findable) bool { return f.ID == id })]
		out = append(out, doctor.Symptom{Finding: steps.Finding{ID: id, Severity: f.Severity, Observed: seen, Why: f.Doc,
			Remedy: remedy, Waived: slices.Contains(h.waived(), id)}, Fix: diagnosis.PauseFix})
	}
	if v := compat.CheckPause(diagnosis.Pause, diagnosis.Facts.Build); v.Status == compat.Refused {
		remedy := "give the plan an image for this build: runtime { pause_image = ... }"
		if v.Instead != "" {
			remedy = fmt.Sprintf("apply the plan, or give it pause_image = %q", v.Instead)
		}
		add(doctor.PauseImageSymptom, v.Why, remedy)
	}
	if compat.CheckPortForward(diagnosis.Pause).Status == compat.Refused {
		add(doctor.PortForwardSymptom, fmt.Sprintf("the pause image is %s, older than the first with wincat",
			diagnosis.Pause), "use a newer pause image: "+compat.PauseImage("windows", diagnosis.Facts.Build))
	}
	return out
}

// waived are the ids of findings that the plan waives for the node.
func (h diagnosing) waived() []string {
	var out []string
	for _, s := range h.node.Steps {
		out = append(out, doctor.Waived(s)...)
	}
	return out
}
