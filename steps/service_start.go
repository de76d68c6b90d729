package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// noteStart keeps that nodejoin has started the service, which runs.
func (s *Service) noteStart(ctx context.Context, h host.Host, e *Env, fingerprint string) error {
	svc, err := h.Service(ctx, s.Name)
	if err != nil {
		return err
	}
	e.Record.Fingerprints[s.Name] = fingerprint
	e.Record.Starts[s.Name] = record.Start{PID: svc.PID, Watch: s.watched(), On: s.on()}
	return e.Record.Save(ctx, h, e.Facts)
}

// on is the digest of the values of RestartOn, "" where there are none.
func (s *Service) on() string {
	if len(s.RestartOn) == 0 {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", s.RestartOn))
	return hex.EncodeToString(sum[:])
}

// outdated says why a running service must be started anew though no file of it has
// changed. A run that has just started it asks no more.
func (s *Service) outdated(e *Env) string {
	switch {
	case e.Applied != nil:
	case s.RestartIf != "" && !HasRef(s.RestartIf):
		return s.RestartIf
	case slices.ContainsFunc(s.RestartOn, HasRef):
		if e.Pending != nil { // in a check; a run knows the values, or does without them
			return "it runs for values that will be known anew: " + strings.Join(s.RestartOn, ", ")
		}
	case len(s.RestartOn) > 0 && e.Record.Starts[s.Name].On != s.on():
		return "it was started for other values than " + strings.Join(s.RestartOn, ", ")
	}
	return ""
}

// startedByOthers tells that the running service is not the process that nodejoin
// started: a person, its recovery or a boot started it, from the files of that moment.
func (e *Env) startedByOthers(svc host.Service) bool {
	noted := e.Record.Starts[svc.Name].PID
	return noted != 0 && svc.PID != 0 && noted != svc.PID
}

// distrust is called before files change: a service that others started, perhaps from
// what is about to be mended, is not taken any more for one that runs from the wanted
// files. That is kept before the change, so that it holds if the run ends in between.
func (e *Env) distrust(ctx context.Context, h host.Host, touched []Touch) error {
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
		if err == nil && e.startedByOthers(svc) {
			delete(e.Record.Fingerprints, name)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return e.Record.Save(ctx, h, e.Facts)
}

// formerNetworks are HNS networks that the program of this step made for an earlier
// plan, and would not remove by itself; they are in the way of the ones it makes now.
func (s *Service) formerNetworks(ctx context.Context, r host.Reader, e *Env) ([]string, error) {
	var out []string
	for _, key := range e.Record.Active() {
		name := key.Name
		c, _ := e.Record.Lookup(key)
		wanted := slices.ContainsFunc(s.HNSNetworks, func(n string) bool { return strings.EqualFold(n, name) })
		if key.Prefix != record.HNSNetwork || c.Existed || c.Step != e.StepID || wanted {
			continue
		}
		_, err := r.HNSNetwork(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, host.ErrUnsupported):
		case err != nil:
			return nil, err
		default:
			out = append(out, name)
		}
	}
	return out, nil
}
