package record

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"

	"nodejoin/steps/host"
)

// Withdraw drops the claims that were made ahead of steps that have not run. A run makes these things in their order,
// so that the first one that is not there, or is not what its step makes, is where a killed run was; whatever lies in
// the place of a later one is not nodejoin's. After an error, which is that of a question to the machine, Ahead has
// what is not known. The record is not saved.
func (r *Record) Withdraw(ctx context.Context, h host.Reader) error {
	for len(r.Ahead) > 0 {
		a := r.Ahead[0]
		made, err := a.made(ctx, h)
		if err != nil {
			return err
		}
		if !made {
			r.withdraw()
			return nil
		}
		r.Ahead = r.Ahead[1:]
	}
	r.Ahead = nil
	return nil
}

// withdraw drops all claims that were made ahead.
func (r *Record) withdraw() {
	ahead := r.Ahead
	r.Ahead = nil
	for _, a := range ahead {
		r.Unclaim(a.Key)
	}
}

// ClaimedAhead is the index of the thing in Ahead; -1 = it is not there.
func (r *Record) ClaimedAhead(key Key) int {
	for i, a := range r.Ahead {
		if a.Key == key {
			return i
		}
	}
	return -1
}

// EndAhead makes a claim that was made ahead one of a step that has run.
func (r *Record) EndAhead(key Key) {
	if i := r.ClaimedAhead(key); i >= 0 {
		r.Ahead = append(r.Ahead[:i], r.Ahead[i+1:]...)
	}
}

// made reports whether it is there as its step makes it, or a write of it was interrupted.
func (a Ahead) made(ctx context.Context, h host.Reader) (bool, error) {
	fi, err := h.Stat(ctx, a.Key.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return host.Exists(ctx, h, host.TempName(a.Key.Name))
	case err != nil:
		return false, err
	case a.SHA256 == "" || fi.Dir:
		return fi.Dir == (a.SHA256 == ""), nil
	}
	have, err := host.HashFile(ctx, h, a.Key.Name, sha256.New())
	return have == a.SHA256, err
}

// Unclaim drops a claim of a thing that nodejoin has not made. The record is not saved.
func (r *Record) Unclaim(key Key) {
	delete(r.Claims, key)
	if r.Snapshot != nil {
		delete(r.Snapshot.Items, key)
	}
	r.EndAhead(key)
}
