package executor

import (
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// claimAhead claims with one save of the record what the steps at the start of the list make, as long as these are
// files and folders that are not there. It returns how many steps these are; 0 where the first step is to claim by
// itself.
func (x *Executor) claimAhead(ctx context.Context, req Request, list []steps.Spec, values map[string]string) int {
	if len(x.record.Ahead) > 0 {
		return 0 // of these it is not known yet whether they were made
	}
	e := x.env(req.Node, list[0].ID)
	e.Plan = req.Plan
	var claims []record.New
	n := 0
	for ; n < len(list); n++ {
		fresh, sum, err := x.fresh(ctx, e, list[n], values)
		if err != nil || fresh == nil {
			break
		}
		for i, c := range fresh {
			if x.record.ClaimedAhead(c.Key) >= 0 {
				continue
			}
			a := record.Ahead{Key: c.Key}
			if i == len(fresh)-1 {
				a.SHA256 = sum
			}
			claims, x.record.Ahead = append(claims, c), append(x.record.Ahead, a)
		}
	}
	if n < 2 || e.Claim(ctx, x.host, claims...) != nil {
		x.record.Ahead = nil // the step reports it when it claims
		return 0
	}
	x.late.hold = true
	return n
}

// aheadOf are the things that are claimed ahead of the step and are there.
func (x *Executor) aheadOf(ctx context.Context, s steps.Spec) (there []record.Key) {
	for _, a := range x.record.Ahead {
		if x.record.Claims[a.Key].Step != s.ID {
			continue
		}
		if ok, err := host.Exists(ctx, x.host, a.Key.Name); err == nil && ok {
			there = append(there, a.Key)
		}
	}
	return there
}

// claimAgain drops the claims that were made ahead of the step of things that somebody has made since, so that the
// step claims them as they are now.
func (x *Executor) claimAgain(ctx context.Context, s steps.Spec) {
	for _, key := range x.aheadOf(ctx, s) {
		x.record.Unclaim(key)
	}
}

// ran makes the claims that were made ahead of a step that has run those of every step.
func (x *Executor) ran(ctx context.Context, s steps.Spec) {
	for _, key := range x.aheadOf(context.WithoutCancel(ctx), s) {
		x.record.EndAhead(key)
	}
}

// fresh are the claims of a step that makes a file or folder where there is none, that thing last, with the digest of
// the file; nil = it is another step, or has claimed some of it before.
func (x *Executor) fresh(ctx context.Context, e *steps.Env, s steps.Spec, values map[string]string) (
	claims []record.New, sum string, err error) {
	if kind, _ := x.kinds.Lookup(s.Kind); kind.Fresh == nil {
		return nil, "", nil
	}
	o, err := x.open(s, values)
	if err != nil || len(steps.ArgRefs(o.args)) > 0 {
		return nil, "", err
	}
	thing := o.kind.Fresh(o.step)
	key := thing.Key
	if x.record.ClaimedAhead(key) >= 0 || key.Name == "" || host.Within(x.facts.OS, x.facts.DataDir, key.Name) {
		return nil, "", nil
	}
	if _, err := x.host.Stat(ctx, key.Name); !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	claims, err = e.Parents(ctx, x.host, key.Name)
	claims = append(claims, record.New{Key: key})
	for i := range claims {
		if _, ok := x.record.Lookup(claims[i].Key); ok {
			return nil, "", err
		}
		claims[i].Step = s.ID
	}
	return claims, thing.SHA256, err
}

// endAhead ends what claimAhead began: the record is due, without the claims of steps that have not run. Where the
// machine does not answer, the next run asks again.
func (x *Executor) endAhead(ctx context.Context) {
	if !x.late.hold {
		return
	}
	x.late.hold = false
	_ = x.record.Withdraw(context.WithoutCancel(ctx), x.host)
	x.saveLate(ctx)
}
