package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// podsOf lists the pods of a container runtime that runs. Those of one that does not run cannot be asked for.
func podsOf(ctx context.Context, r host.Reader, svc host.Service, cri string) ([]host.Pod, error) {
	if cri == "" || svc.State != host.ServiceRunning {
		return nil, nil
	}
	pods, err := r.Pods(ctx, cri)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it does not serve yet, or no longer
	}
	if err != nil {
		return nil, &steps.Error{Code: steps.CodeFailed, Summary: "the pods are not known",
			Detail: fmt.Sprintf("service %s runs, but does not list its pods at %s: %v", svc.Name, cri, err),
			Remedy: "restart the service, or the machine; then run the same command again"}
	}
	return pods, nil
}

// podsReason says what becomes of the pods of a service that goes; "" = it has none.
func podsReason(ctx context.Context, r host.Reader, e *steps.Env, svc host.Service, cri string) (string, error) {
	if svc.State != host.ServiceRunning {
		s, err := stranded(ctx, r, e, cri)
		return s.String(), err
	}
	pods, err := podsOf(ctx, r, svc, cri)
	switch {
	case err != nil && len(shimsOf(e)) > 0:
		return "it does not list its pods, so that their shims are killed", nil
	case err != nil || len(pods) == 0:
		return "", err
	}
	return fmt.Sprintf("%d %s", len(pods), plural(len(pods), "pod ends", "pods end")), nil
}

// podsEnd bounds the orderly end of all pods; those that are left are killed with their shims.
const podsEnd = 5 * time.Minute

// endPods ends the pods that a container runtime still runs, DaemonSets' and static ones: their containers would
// outlive it, with its files in use. The kubelet, which would start them again, has gone before. Where nodejoin knows
// the runtime's shims, a pod that does not end is left to endShims.
func endPods(ctx context.Context, h host.Host, e *steps.Env, name, cri string) error {
	svc, err := h.Service(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	killable := cri != "" && len(shimsOf(e)) > 0
	pods, err := podsOf(ctx, h, svc, cri)
	if err != nil && !killable {
		return err
	}
	bound, cancel := context.WithTimeout(ctx, podsEnd)
	defer cancel()
	for i, p := range pods {
		if killable && bound.Err() != nil {
			break
		}
		e.Progress(event.StepProgress{Note: fmt.Sprintf("ends pod %s (%d of %d)", p, i+1, len(pods))})
		err := h.RemovePod(bound, cri, p.ID)
		switch {
		case err == nil:
		case ctx.Err() != nil, !killable:
			return fmt.Errorf("pod %s: %w", p, err)
		default:
			e.Progress(event.StepProgress{Note: fmt.Sprintf("pod %s does not end: %v; its shim is ended", p, err)})
		}
	}
	return nil
}

// shimPrefix begins the name of a program that holds the containers of a pod (containerd, core/runtime/v2/README.md:
// containerd-shim-RUNTIME-VERSION). It outlives containerd.
const shimPrefix = "containerd-shim"

// shimsOf are the programs of containers that nodejoin has installed, sorted.
func shimsOf(e *steps.Env) (out []string) {
	for key, claim := range e.Record.Claims {
		if key.Prefix == record.File && !claim.Existed && strings.HasPrefix(host.Base(e.Facts.OS, key.Name), shimPrefix) {
			out = append(out, key.Name)
		}
	}
	slices.Sort(out)
	return out
}

// sandboxEndpoint matches the name of the HNS endpoint of a containerd sandbox: its id, and the name of the network
// (containernetworking/plugins, pkg/hns, ConstructEndpointName; Calico's plugin names them alike).
var sandboxEndpoint = regexp.MustCompile(`^[0-9a-f]{64}_`)

// strandedPods are what a container runtime that does not run has left of its pods.
type strandedPods struct {
	shims     []string // programs that still run
	processes int
	endpoints []host.HNSEndpoint
}

func (s strandedPods) none() bool { return len(s.shims)+len(s.endpoints) == 0 }

// String is "2 shims of containers that still run, 1 HNS endpoint of pods", "" for none.
func (s strandedPods) String() string {
	var parts []string
	if n := s.processes; n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s of containers that still run", n, plural(n, "shim", "shims")))
	}
	if n := len(s.endpoints); n > 0 {
		parts = append(parts, fmt.Sprintf("%d HNS %s of pods", n, plural(n, "endpoint", "endpoints")))
	}
	return strings.Join(parts, ", ")
}

// stranded looks for what pods have left. Where the runtime does not serve a CRI it looks for nothing.
func stranded(ctx context.Context, r host.Reader, e *steps.Env, cri string) (s strandedPods, err error) {
	if cri == "" {
		return s, nil
	}
	for _, program := range shimsOf(e) {
		pids, err := r.Processes(ctx, program)
		if err != nil {
			return s, err
		}
		if len(pids) > 0 {
			s.shims, s.processes = append(s.shims, program), s.processes+len(pids)
		}
	}
	var endpoints []host.HNSEndpoint
	err = untilHNSAnswers(ctx, e, func() (err error) {
		endpoints, err = r.HNSEndpoints(ctx)
		return err
	})
	if errors.Is(err, host.ErrUnsupported) {
		return s, nil
	}
	for _, have := range endpoints {
		if !have.Remote && sandboxEndpoint.MatchString(have.Name) {
			s.endpoints = append(s.endpoints, have)
		}
	}
	return s, err
}

// endStranded ends what a container runtime that has stopped has left of its pods.
func endStranded(ctx context.Context, h host.Host, e *steps.Env, cri string) error {
	s, err := stranded(ctx, h, e, cri)
	if err != nil {
		return err
	}
	for _, program := range s.shims {
		if err := h.EndProcesses(ctx, program); err != nil {
			return err
		}
	}
	for _, have := range s.endpoints {
		if err := untilHNSAnswers(ctx, e, func() error { return h.DeleteHNSEndpoint(ctx, have.ID) }); err != nil {
			return err
		}
	}
	return nil
}
