package steps

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"nodejoin/steps/host"
)

// StartedByOthers reports that the running service is not the process that nodejoin
// started: a person, its recovery or a boot started it, from the files of that moment.
func (e *Env) StartedByOthers(svc host.Service) bool {
	noted := e.Record.Starts[svc.Name].PID
	return noted != 0 && svc.PID != 0 && noted != svc.PID
}

// Distrust is called before files change: a service that others started, perhaps from
// what is about to be fixed, is not taken any more for one that runs from the wanted
// files. That is kept before the change, so that it holds if the run ends in between.
func (e *Env) Distrust(ctx context.Context, h host.Host, touched []Touch) error {
	touching := &Env{Facts: e.Facts, Pending: map[Touch]string{}}
	for _, t := range touched {
		touching.Pending[t.Key(e.Facts.OS)] = e.StepID
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(e.Record.Starts)) {
		_, trusted := e.Record.Fingerprints[name]
		if !trusted || !slices.ContainsFunc(e.Record.Starts[name].Watch, func(p string) bool {
			_, will := touching.WillChange(Touch{Path: p})
			return will
		}) {
			continue
		}
		svc, err := h.Service(ctx, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && e.StartedByOthers(svc) {
			delete(e.Record.Fingerprints, name)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return e.Record.Save(ctx, h, e.Facts)
}
