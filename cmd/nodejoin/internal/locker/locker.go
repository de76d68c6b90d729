// Package locker makes the lock of a plan: it reads every artifact and notes what it is.
package locker

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/sync/errgroup"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/plan/signature"
	"nodejoin/steps"
)

// Locker reads artifacts.
type Locker struct {
	// Open returns the bytes of an artifact, and their number or -1.
	Open opener
	// Post asks a service: url, JSON, and the most bytes that its answer may have.
	Post func(context.Context, string, []byte, int64) ([]byte, error)
	// Images reads what an image is for its platform; nil = images are not locked.
	Images imageReader
	// Upgrade takes what is upstream now, also where the lock has other bytes of the same version.
	Upgrade bool
}

// Lock reads the artifacts of a plan and returns its lock. With errors in the diagnostics there is none. Every
// artifact is read, so that one that has changed since it was locked is found.
func (l *Locker) Lock(ctx context.Context, p *plan.Compiled) (*lock.File, hcl.Diagnostics) {
	entries := make([]lock.Entry, len(p.Artifacts))
	faults := make([]*hcl.Diagnostic, len(p.Artifacts))
	var g errgroup.Group
	g.SetLimit(readers)
	for i, a := range p.Artifacts {
		g.Go(func() error {
			entries[i], faults[i] = l.entry(ctx, a, p.Lock.Lookup(a.Name, a.Platform()), p.TrustRoot())
			return nil
		})
	}
	_ = g.Wait() // the functions return none
	faults = slices.DeleteFunc(faults, func(d *hcl.Diagnostic) bool { return d == nil })
	f := &lock.File{Entries: entries}
	faults = append(faults, addModules(f, p.Modules)...)
	if l.Images != nil {
		faults = append(faults, l.Images.add(ctx, p, f, l.Upgrade)...)
	}
	f.Sort()
	return f, faults
}

// entry reads an artifact. before is its entry so far, nil = none.
func (l *Locker) entry(ctx context.Context, a plan.Artifact, before *lock.Entry, root *signature.Root,
) (lock.Entry, *hcl.Diagnostic) {
	e := lock.Entry{Name: a.Name, Platform: a.Platform(), Version: a.Version, Address: a.Address, Verified: lock.None}
	r, err := l.Open.read(ctx, a.From)
	if err != nil {
		return e, fault(a.Range, "an artifact cannot be read", "%s for %s: %s. Check its version and address, and the "+
			"proxy of this machine (HTTPS_PROXY); the lock stays as it is.", a.Name, a.Platform(), err)
	}
	if r.size == 0 {
		return e, fault(a.Range, "an artifact cannot be read", "%s for %s: %s is empty.", a.Name, a.Platform(), a.Address)
	}
	if before != nil && before.Address == a.Upstream && a.Address != a.Upstream && before.Version == a.Version &&
		before.SHA256 == r.sha256 { // a mirror has what was locked from its publisher
		return *before, nil
	}
	e.Size, e.SHA256 = r.size, r.sha256
	for _, d := range []struct{ name, want, have string }{
		{"sha256", a.Source.SHA256, r.sha256}, {"sha512", a.Source.SHA512, r.sha512},
	} {
		if d.want == "" {
			continue
		}
		if d.want != d.have {
			return e, fault(a.Range, "wrong digest", "The plan gives %s for %s the %s %s, and %s has %s (%d bytes). It is "+
				"not what the plan wants, or was tampered with. Get the file from its publisher, or correct the plan.", a.Name,
				a.Platform(), d.name, d.want, a.Address, d.have, r.size)
		}
		e.Verified = lock.Digest
	}
	if a.Source.SHA512 != "" {
		e.SHA512 = r.sha512
	}
	if a.Checksum != "" {
		if g := l.Open.verify(ctx, a, r); g != nil {
			return e, g
		}
		e.Verified, e.Checksum = lock.Checksum, steps.ShowURL(a.Checksum)
	}
	if a.Signed != nil && (a.Address == a.Upstream || a.Signed.Own) {
		if g := (&signer{l.Open, l.Post}).sign(ctx, a, &e, before, root); g != nil {
			return e, g
		}
	}
	if g := l.changed(a, e, before); g != nil {
		return e, g
	}
	return e, nil
}

// changed refuses an artifact whose bytes are not those that were locked for the same version and address, or
// that are those of another version.
func (l *Locker) changed(of plan.Artifact, e lock.Entry, before *lock.Entry) *hcl.Diagnostic {
	switch {
	case before == nil:
	case e.Version != before.Version && e.SHA256 == before.SHA256:
		return fault(before.Range, "the artifact is another version", "%s has the same bytes that are locked here as "+
			"version %s, and the plan wants %s. Put the file of that version there.", e.Address, before.Version, e.Version)
	case e.Version != before.Version || e.Address != before.Address && before.Address != of.Upstream:
	case e.SHA256 != before.SHA256 && !l.Upgrade:
		return fault(before.Range, "the artifact has changed", "%s now has %d bytes with the sha256 %s; locked are %d "+
			"bytes with %s. Publishers do not change what they have released, so it may have been tampered with. Ask its "+
			"publisher; 'nodejoin lock --upgrade' takes it as it is now.", e.Address, e.Size, e.SHA256, before.Size,
			before.SHA256)
	}
	return nil
}

// Unwritten is why a lock could not be written.
func Unwritten(err error) ui.Problem {
	p := ui.Problem{Level: "error", Summary: "the lock cannot be written", Detail: ui.CleanLine(err.Error()) +
		". The lock is as it was.", Remedy: "Give this user the right to write there, and run the command again."}
	if errors.Is(err, syscall.ENOSPC) {
		p.Summary, p.Remedy = "no room for the lock", "Make room, and run the command again."
	}
	return p
}
