package engine

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"nodejoin/steps"
)

// checkFiles checks the controller's artifacts that steps will read, so that all faults are reported at
// once, before anything is changed.
func (h *hostRun) checkFiles(ctx context.Context, results map[string]steps.Result) {
	var specs []steps.Spec
	for _, spec := range h.specs(steps.OnHost) {
		if results[spec.ID].Err == nil && h.needsBlob(spec) {
			specs = append(specs, spec)
		}
	}
	errs := make([]*steps.Error, len(specs))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i, spec := range specs {
		g.Go(func() error { _, errs[i] = h.content(ctx, blobOf(spec)); return nil })
	}
	_ = g.Wait()
	for i, spec := range specs {
		if r := results[spec.ID]; errs[i] != nil {
			r.Err = errs[i]
			results[spec.ID] = r
		}
	}
}
