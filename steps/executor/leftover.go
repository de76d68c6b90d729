package executor

import (
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// removeLeftover removes the service that changes features of Windows, if a run that was killed has registered and not
// started it. One that is at work removes itself.
func (x *Executor) removeLeftover(ctx context.Context) *steps.Error {
	if x.facts.OS != "windows" {
		return nil
	}
	s, err := x.host.Service(ctx, host.FeatureService)
	if err == nil && s.State == host.ServiceStopped {
		err = x.host.DeleteService(ctx, host.FeatureService)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrServiceRunning) {
		return nil
	}
	return steps.AsError(err)
}
