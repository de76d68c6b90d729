// Package generalize makes a machine that an image is made of fit to be copied: what makes it this machine and no
// other goes, and a search of the bytes that are left proves it.
package generalize

import (
	"bytes"
	"context"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// Within bounds a run.
const Within = 30 * time.Minute

// Run generalizes a machine. An interrupted run is finished by the next.
func Run(ctx context.Context, h host.Host, e *steps.Env, req Request) (Reply, error) {
	reply := Reply{Removed: []Found{}, Left: []Found{}}
	if err := joined(e.Record, req.Steps); err != nil {
		return reply, err
	}
	s := &search{r: h, e: e, req: req}
	if err := s.patterns(ctx); err != nil {
		return reply, err
	}
	going, err := s.going(ctx)
	if err != nil {
		return reply, err
	}
	s.skip = going
	if reply.Left, err = s.run(ctx); err != nil || len(reply.Left) > 0 || req.Check {
		reply.Files = s.files
		return reply, err
	}
	for _, f := range going {
		if err := remove(ctx, h, e.Facts.OS, f.Path); err != nil {
			return reply, err
		}
	}
	e.Record.Digests = nil // a cache, with the times of files
	if err := e.Record.Save(ctx, h, e.Facts); err != nil {
		return reply, err
	}
	reply.Removed, s.skip = going, nil
	if reply.Left, err = s.run(ctx); err != nil {
		return reply, err
	}
	reply.Files = s.files
	again, err := s.going(ctx)
	reply.Left = append(reply.Left, again...)
	return reply, err
}

// joined refuses a machine that has more of a plan than an image may have.
func joined(rec *record.Record, prepared []string) error {
	for _, key := range rec.Active() {
		if step := rec.Claims[key].Step; !slices.Contains(prepared, step) {
			return &steps.Error{Code: steps.CodeInvalid, Summary: "the machine is a node, or was to become one",
				Detail: "it has " + key.String() + " of the step " + step + ", which an image must not have",
				Remedy: "run 'nodejoin leave' on it before, or bake a machine that has not joined"}
		}
	}
	return nil
}

// remove removes what is at path, with what is in it; of a link only the link.
func remove(ctx context.Context, h host.Host, os, path string) (err error) {
	if path == machineID {
		return h.WriteFile(ctx, path, bytes.NewReader(nil), host.WriteOptions{})
	}
	for range 3 { // a program that writes there may have made another file meanwhile
		if err = steps.RemoveTree(ctx, h, os, path); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}
