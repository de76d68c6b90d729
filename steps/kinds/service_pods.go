package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
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

// endPods ends the pods that a container runtime still runs, DaemonSets' and static ones: their containers would
// outlive it, with its files in use. The kubelet, which would start them again, has gone before.
func endPods(ctx context.Context, h host.Host, e *steps.Env, name, cri string) error {
	svc, err := h.Service(ctx, name)
	if err != nil {
		return err
	}
	pods, err := podsOf(ctx, h, svc, cri)
	if err != nil {
		return err
	}
	for i, p := range pods {
		e.Progress(event.StepProgress{Note: fmt.Sprintf("ends pod %s (%d of %d)", p, i+1, len(pods))})
		if err := h.RemovePod(ctx, cri, p.ID); err != nil {
			return fmt.Errorf("pod %s: %w", p, err)
		}
	}
	return nil
}
