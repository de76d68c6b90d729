package kinds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// noteStart keeps that nodejoin has started the service, which runs.
func (s *Service) noteStart(ctx context.Context, h host.Host, e *steps.Env, fingerprint string) error {
	svc, err := h.Service(ctx, s.Name)
	if err != nil {
		return err
	}
	e.Record.Fingerprints[s.Name] = fingerprint
	e.Record.Starts[s.Name] = record.Start{PID: svc.PID, Watch: s.Watched(), On: s.on()}
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

// outdated says why a running service must be restarted though no file of it has
// changed. A run that has just started it does not ask.
func (s *Service) outdated(e *steps.Env) string {
	switch {
	case e.Applied != nil:
	case s.RestartIf != "" && !steps.HasRef(s.RestartIf):
		return s.RestartIf
	case slices.ContainsFunc(s.RestartOn, steps.HasRef):
		if e.Pending != nil { // in a check; a run knows the values, or does without them
			return "it runs for values that will change: " + strings.Join(s.RestartOn, ", ")
		}
	case len(s.RestartOn) > 0 && e.Record.Starts[s.Name].On != s.on():
		return "it was started for other values than " + strings.Join(s.RestartOn, ", ")
	}
	return ""
}

// formerNetworks are HNS networks that this step, or its program, made for an earlier
// plan, and that would not go by themselves; they are in the way of those that are wanted.
func formerNetworks(ctx context.Context, r host.Reader, e *steps.Env, wanted ...string) ([]string, error) {
	var out []string
	for _, key := range e.Record.Active() {
		name := key.Name
		c, _ := e.Record.Lookup(key)
		keep := slices.ContainsFunc(wanted, func(n string) bool { return strings.EqualFold(n, name) })
		if key.Prefix != record.HNSNetwork || c.Existed || c.Step != e.StepID || keep {
			continue
		}
		_, err := readNetwork(ctx, r, e, name)
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
