package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// checkNode looks at the Node object; an absent one leaves the report without.
func (h *hostRun) checkNode(ctx context.Context, api kube.API) error {
	n, err := api.Node(ctx, h.node.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	h.report.KubeNode = &n
	return h.ofEnvironment(n)
}

// ofEnvironment refuses a Node of another environment.
func (h *hostRun) ofEnvironment(n kube.Node) error {
	if err := steps.OtherEnvironment("the Node "+n.Name, n.Annotations[kube.PlanOf], h.planName()); err != nil {
		return err
	}
	return nil
}

// checkUpgrade says what a change of version means, refuses one that cannot be, and
// looks at the pods that are to be moved. What is refused is the error of a step, so
// that the host is left as it is.
func (h *hostRun) checkUpgrade(ctx context.Context) {
	if h.api != nil && h.plan.Cluster != nil {
		upgradeCheck{h}.check(ctx)
	}
}

// upgradeCheck is the part of a host's check that is about another version.
type upgradeCheck struct{ *hostRun }

func (h upgradeCheck) check(ctx context.Context) {
	kubelet := h.program(compat.KubeletProgram)
	if kubelet != nil && kubelet.step.Result.Err == nil {
		if err := h.checkVersion(kubelet); err != nil {
			kubelet.step.Result.Err = err
		}
	}
	h.report.Interruption = h.interruption()
	if i := h.report.Interruption; i != nil && h.report.KubeNode.Ready {
		pods, err := h.api.Pods(ctx, h.node.Name)
		if err == nil {
			evict, _, blocked := kube.DrainPlan(pods, h.opt.Drain)
			for _, p := range evict {
				i.Evict = append(i.Evict, p.String())
			}
			if len(blocked) > 0 {
				err = drainError(&kube.BlockedError{Pods: blocked})
			}
		}
		if i.first == removalStep && err != nil {
			h.report.Err = err
		}
		if s := h.step(i.first); s != nil && err != nil && s.Result.Err == nil {
			s.Result.Err = steps.AsError(err)
		}
	}
}

// checkVersion judges the version that the kubelet would get against the API server
// and against what runs, and notes the upgrade.
func (h upgradeCheck) checkVersion(kubelet *program) *steps.Error {
	c := kubelet.step.Result.Change
	to, node := h.plan.Cluster.Version, h.report.KubeNode
	order, known := 0, false
	if node != nil && c.Action != steps.ActionCreate { // a kubelet that is not on the host has no version
		order, known = compat.Compare(node.KubeletVersion, to)
	}
	if c.NoOp() || known && order == 0 {
		return nil // what runs stays
	}
	if v := compat.CheckSkew(compat.KubeletProgram, to, h.info.Version); v.Status == compat.NoVersion {
		h.emit(event.Warning{Host: h.node.Name, Summary: "the version of the API server is not known",
			Detail: v.Why + "; whether it goes with Kubernetes " + to + " was not judged"})
	} else if !v.Accepted() {
		return &steps.Error{Code: steps.CodeFailed, Summary: "version skew",
			Detail: fmt.Sprintf("the API server is %s, the plan wants Kubernetes %s on the node: %s", h.info.Version,
				to, v.Why),
			Remedy: "this API server takes " + v.Instead +
				"; upgrade the control plane first, or write such a version into the plan"}
	}
	if !known {
		return nil
	}
	h.report.Upgrade = &Upgrade{From: compat.Canonical(node.KubeletVersion), To: to, Downgrade: order > 0,
		Notes: h.meaning(node.KubeletVersion, to)}
	if order > 0 && !h.opt.AllowDowngrade {
		return &steps.Error{Code: steps.CodeFailed, Summary: "a downgrade",
			Detail: fmt.Sprintf("the kubelet of the node is %s, the plan wants the older %s; Kubernetes does not "+
				"test that way", node.KubeletVersion, to),
			Remedy: "write " + compat.Canonical(node.KubeletVersion) +
				" or a later version into the plan; --allow-downgrade goes back all the same"}
	}
	return nil
}

// program is a program of Kubernetes as its service step runs it.
type program struct {
	step    *StepReport
	command []string // as the plan wants it
}

// program finds the service step that runs a program; nil = none.
func (h upgradeCheck) program(name string) *program {
	for i := range h.report.Steps {
		s := &h.report.Steps[i]
		service, _ := kinds.Runs(s.Spec)
		for _, word := range service.Command {
			if strings.ContainsAny(word, `\/`) && strings.TrimSuffix(strings.ToLower(host.Base(h.node.OS, word)),
				".exe") == name {
				return &program{step: s, command: service.Command}
			}
		}
	}
	return nil
}

// meaning compares how the programs run with how they will, by the tables of versions.
func (h upgradeCheck) meaning(from, to string) []string {
	var out []string
	for _, name := range []string{compat.KubeletProgram, compat.KubeProxyProgram} {
		p := h.program(name)
		if p == nil {
			continue
		}
		want := compat.Use{Args: p.command}
		have := want
		if command, differs := p.step.Result.Change.FoundText(); differs {
			have.Args = strings.Split(command, "\n")
		}
		have.Config, want.Config = h.configOf(p.command)
		out = append(out, compat.Changes(name, have, want, from, to)...)
	}
	return out
}

// configOf are the texts of the file of --config, as found and as wanted; "" where
// they are not known.
func (h upgradeCheck) configOf(command []string) (have, want string) {
	path := ""
	for _, a := range command {
		if v, ok := strings.CutPrefix(a, "--config="); ok {
			path = v
		}
	}
	for _, s := range h.report.Steps {
		f, ok := kinds.As[kinds.File](s.Spec)
		if !ok || path == "" || f.Path != path {
			continue
		}
		have, want = f.Content, f.Content
		if text, differs := s.Result.Change.FoundText(); differs {
			have = text
		}
	}
	return have, want
}

// interruption is what would stop of kubelet and runtime while the Node is
// registered; nil = nothing. A service that does not run cannot stop.
func (h upgradeCheck) interruption() *Interruption {
	if h.report.KubeNode == nil {
		return nil
	}
	out := &Interruption{}
	if id, may := h.reboots(); may {
		out.Reboot, out.first = true, id
	}
	for _, name := range carriers {
		first := ""
		runs := true
		for _, s := range h.report.Steps {
			c := s.Result.Change
			if first == "" && s.Result.Err == nil && !c.NoOp() && slices.Contains(c.Touches, steps.Touch{Service: name}) {
				first = s.Spec.ID
			}
			if svc, ok := kinds.Runs(s.Spec); ok && svc.Name == name {
				runs = c.Action != steps.ActionStart && c.Action != steps.ActionCreate
			}
		}
		if h.removesCarrier(name) {
			first, runs = removalStep, true
		}
		if first == "" || !runs {
			continue
		}
		out.Services = append(out.Services, name)
		if out.first == "" || h.before(first, out.first) {
			out.first = first
		}
	}
	if out.Networks = h.removedCarriers(); len(out.Networks) > 0 {
		out.first = removalStep
	}
	if out.first == "" {
		return nil
	}
	if out.Services == nil {
		out.Services = []string{}
	}
	return out
}

// before reports whether step a comes before b.
func (h upgradeCheck) before(a, b string) bool {
	at := func(id string) int {
		return slices.IndexFunc(h.node.Steps, func(s steps.Spec) bool { return s.ID == id })
	}
	return at(a) < at(b)
}

func (h *hostRun) step(id string) *StepReport {
	i := slices.IndexFunc(h.report.Steps, func(s StepReport) bool { return s.Spec.ID == id })
	if i < 0 {
		return nil
	}
	return &h.report.Steps[i]
}
