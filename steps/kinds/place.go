package kinds

import (
	"context"
	"errors"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// wayFree is the error for a file that stands where a folder above path is to be made. One that goes before the step
// runs is none.
func wayFree(ctx context.Context, r host.Reader, e *steps.Env, path string) error {
	_, err := host.MissingParents(ctx, r, e.Facts.OS, path)
	var at *host.Error
	if errors.Is(err, host.ErrFile) && errors.As(err, &at) && goesBefore(e, record.File, at.Subject) {
		return nil
	}
	return err
}

// goesBefore reports whether what is at path goes before a step that makes something else there: an earlier step
// changes it, or nodejoin made it as what the prefix says and the plan no longer has it so.
func goesBefore(e *steps.Env, prefix record.Prefix, path string) bool {
	_, changes := e.WillChange(steps.Touch{Path: path})
	return changes || steps.Created(e, prefix.Of(path))
}
