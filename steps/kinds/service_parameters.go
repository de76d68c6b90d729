package kinds

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

func (s *Service) validateParameters(os string) error {
	if len(s.Parameters) > 0 && os != "windows" {
		return steps.Invalid("service %s: parameters are kept in the registry, which Windows has", s.Name)
	}
	seen := map[string]bool{}
	for _, p := range s.Parameters {
		key := strings.ToLower(p.Name)
		switch {
		case p.Name == "" || strings.HasPrefix(p.Name, `\`) || strings.Contains(p.Name, `\\`):
			return steps.Invalid("service %s: %q is not the name of a parameter", s.Name, p.Name)
		case p.Type == "binary":
			return steps.Invalid("service %s: parameter %s: its type cannot be binary", s.Name, p.Name)
		case seen[key]:
			return steps.Invalid("service %s has two parameters %s", s.Name, p.Name)
		}
		seen[key] = true
		if err := p.registry(s.Name).validate(); err != nil {
			return err
		}
	}
	return nil
}

// parameterDiffs compares; parameters of other names are left alone. With absent
// nothing is there yet, and nothing is asked.
func (s *Service) parameterDiffs(ctx context.Context, r host.RegistryReader, absent bool) ([]steps.Diff, error) {
	var out []steps.Diff
	for _, p := range s.Parameters {
		g := p.registry(s.Name)
		var have *host.RegistryValue
		if !absent {
			var err error
			if have, err = g.read(ctx, r); err != nil {
				return nil, err
			}
		}
		for _, d := range g.diff(have).Diffs {
			d.Name = "parameter " + p.Name
			out = append(out, d)
		}
	}
	return out, nil
}

// setParameters writes those that differ. What the service was last started from is
// forgotten before, so that it is restarted even if this run ends in between.
func (s *Service) setParameters(ctx context.Context, h host.Host, e *steps.Env) error {
	if err := s.claimParameters(ctx, h, e); err != nil {
		return err
	}
	for _, p := range s.Parameters {
		g := p.registry(s.Name)
		have, err := h.RegistryValue(ctx, g.Key, g.Name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && sameRegistryValue(have, g.RegistryValue) {
			continue
		}
		if _, known := e.Record.Fingerprints[s.Name]; known {
			delete(e.Record.Fingerprints, s.Name)
			if err := e.Record.Save(ctx, h, e.Facts); err != nil {
				return err
			}
		}
		if err := h.SetRegistryValue(ctx, g.Key, g.Name, g.RegistryValue); err != nil {
			return err
		}
	}
	return nil
}

// claimParameters claims the values. Those of a registration by nodejoin 0.1, which claimed
// none, are nodejoin's as well.
func (s *Service) claimParameters(ctx context.Context, h host.Host, e *steps.Env) error {
	var claims []record.New
	for _, p := range s.Parameters {
		g := p.registry(s.Name)
		have, err := g.read(ctx, h)
		if err != nil {
			return err
		}
		c, ok := e.Record.Lookup(g.key())
		claimed := ok && !c.Undone
		if have != nil && !claimed && e.Record.Snapshot.Open() {
			continue
		}
		own := record.New{Key: g.key(), Detail: g.Name}
		if have != nil && claimed {
			own.Previous = *have
		}
		keys, err := missingKeys(ctx, h, g.Key)
		if err != nil {
			return err
		}
		claims = append(append(claims, keys...), own)
	}
	if len(claims) == 0 {
		return nil
	}
	return e.Claim(ctx, h, claims...)
}

// withParameters is the change with differences of parameters, which alone make it an update.
func withParameters(c steps.Change, more []steps.Diff) steps.Change {
	if c.Action == steps.ActionNone || c.Action == steps.ActionRestart || c.Action == steps.ActionStart {
		if c.Action == steps.ActionRestart {
			c.Reason = "restarts: " + c.Reason
		}
		c.Action = steps.ActionUpdate
	}
	c.Diffs = append(c.Diffs, more...)
	return c
}
