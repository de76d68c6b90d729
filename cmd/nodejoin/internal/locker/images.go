package locker

import (
	"context"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/sync/errgroup"

	"nodejoin/plan"
	"nodejoin/plan/lock"
)

// imageReader reads what an image is for its platform.
type imageReader func(context.Context, plan.Image) ([]lock.Image, error)

// add adds the images of a plan to its lock.
func (read imageReader) add(ctx context.Context, p *plan.Compiled, f *lock.File, upgrade bool) (out hcl.Diagnostics) {
	found, errs := make([][]lock.Image, len(p.Images)), make([]error, len(p.Images))
	var g errgroup.Group
	g.SetLimit(readers)
	for n, i := range p.Images {
		g.Go(func() error {
			found[n], errs[n] = read(ctx, i)
			return nil
		})
	}
	_ = g.Wait() // the functions return none
	for n, i := range p.Images {
		if errs[n] != nil {
			out = append(out, fault(i.Range, "an image cannot be read", "%s for %s: %s. Check its name, and the proxy of "+
				"this machine (HTTPS_PROXY); the lock stays as it is.", i.Name, i.Platform(), errs[n]))
		}
		for _, have := range found[n] {
			if f.LookupImage(have.Name, have.Platform) != nil {
				continue // it is for nodes whose build is known, too
			}
			f.Images = append(f.Images, have)
			before := p.Lock.LookupImage(have.Name, have.Platform)
			if before != nil && !upgrade && before.Digest != have.Digest {
				out = append(out, fault(before.Range, "the image has changed", "%s for %s is now %s, and locked is %s. The tag "+
					"was moved to another image. Look at what its publisher says; 'nodejoin lock --upgrade' takes it as it is "+
					"now.", have.Name, have.Platform, have.Digest, before.Digest))
			}
		}
	}
	return out
}
