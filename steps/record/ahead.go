package record

import (
	"context"
	"slices"

	"nodejoin/steps/host"
)

// Withdraw drops the claims that were made ahead of steps, where there is nothing: these steps have not run. The
// record is not saved.
func (r *Record) Withdraw(ctx context.Context, h host.Reader) {
	for _, key := range slices.Clone(r.Ahead) {
		there, err := host.Exists(ctx, h, key.Name)
		if err == nil && !there {
			there, err = host.Exists(ctx, h, host.TempName(key.Name))
		}
		if err == nil && !there {
			r.Unclaim(key)
		}
	}
	r.Ahead = nil
}

// Unclaim drops a claim of a thing that nodejoin has not made. The record is not saved.
func (r *Record) Unclaim(key Key) {
	delete(r.Claims, key)
	if r.Snapshot != nil {
		delete(r.Snapshot.Items, key)
	}
	r.Ahead = slices.DeleteFunc(r.Ahead, func(k Key) bool { return k == key })
}
