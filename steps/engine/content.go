package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/transport"
)

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

// needsBlob reports whether the step will read an artifact of the controller.
func (h *hostRun) needsBlob(spec steps.Spec) bool {
	return h.pending[spec.ID] && blobOf(spec).File != ""
}

// blobOf is the artifact of the controller that a step's arguments name, if any.
func blobOf(spec steps.Spec) steps.Source {
	var src steps.Source
	if json.Unmarshal(spec.Args.JSON(), &src) != nil {
		return steps.Source{}
	}
	if _, digest := src.Digest(); digest == "" {
		return steps.Source{} // another kind's argument of that name
	}
	return src
}
