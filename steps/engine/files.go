package engine

import (
	"context"
	"errors"
	"io/fs"
	"runtime"

	"golang.org/x/sync/errgroup"

	"nodejoin/steps"
	"nodejoin/steps/transport"
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

// content opens the controller's file of an artifact, which has its digest.
func (s *Session) content(ctx context.Context, src steps.Source) (*transport.Content, *steps.Error) {
	c, err := s.contents.Open(ctx, src)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, steps.Interrupted("apply")
	}
	detail := err.Error()
	if errors.Is(err, fs.ErrNotExist) {
		detail = src.File + " does not exist"
	}
	if e := steps.AsError(err); e.Code == steps.CodeDigest {
		return nil, e
	}
	return nil, &steps.Error{Code: steps.CodeFailed, Summary: "an artifact cannot be read", Detail: detail,
		Remedy: "put the file there, or correct the path or the version in the plan"}
}
