package executor

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// claimAhead claims with one save of the record what the steps at the start of the list make, as long as these are
// files and folders that are not there. It returns how many steps these are; 0 where the first step is to claim by
// itself.
func (x *Executor) claimAhead(ctx context.Context, req Request, list []steps.Spec, values map[string]string) int {
	e := x.env(req.Node, "")
	e.Plan = req.Plan
	var claims []record.New
	n := 0
	for ; n < len(list); n++ {
		fresh, err := x.fresh(ctx, e, list[n], values)
		if err != nil || fresh == nil {
			break
		}
		for _, c := range fresh {
			if !slices.Contains(x.record.Ahead, c.Key) {
				claims, x.record.Ahead = append(claims, c), append(x.record.Ahead, c.Key)
			}
		}
	}
	if n < 2 || e.Claim(ctx, x.host, claims...) != nil {
		x.record.Ahead = nil // the step reports it when it claims
		return 0
	}
	x.late.hold = true
	return n
}

// claimAgain drops the claim that was made ahead of the step if somebody has made its file since, so that the step
// claims it as it is now.
func (x *Executor) claimAgain(ctx context.Context, s steps.Spec, values map[string]string) {
	if x.record.Ahead == nil {
		return
	}
	o, err := x.open(s, values)
	if err != nil || o.kind.Fresh == nil {
		return
	}
	key := o.kind.Fresh(o.step)
	if key.Prefix != record.File {
		return // a folder that is there now may be above an earlier one
	}
	if there, err := host.Exists(ctx, x.host, key.Name); err == nil && there {
		x.record.Unclaim(key)
	}
}

// fresh are the claims of a step that makes a file or folder where there is none; nil = it is another step, or has
// claimed some of it before.
func (x *Executor) fresh(ctx context.Context, e *steps.Env, s steps.Spec, values map[string]string) ([]record.New,
	error) {
	if kind, _ := x.kinds.Lookup(s.Kind); kind.Fresh == nil {
		return nil, nil
	}
	o, err := x.open(s, values)
	if err != nil || len(steps.ArgRefs(o.args)) > 0 {
		return nil, err
	}
	key := o.kind.Fresh(o.step)
	if slices.Contains(x.record.Ahead, key) || key.Name == "" || host.Within(x.facts.OS, x.facts.DataDir, key.Name) {
		return nil, nil
	}
	if _, err := x.host.Stat(ctx, key.Name); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	claims, err := e.Parents(ctx, x.host, key.Name)
	claims = append(claims, record.New{Key: key})
	for i := range claims {
		if _, ok := x.record.Lookup(claims[i].Key); ok {
			return nil, err
		}
		claims[i].Step = s.ID
	}
	return claims, err
}

// endAhead ends what claimAhead began: the record is due, without the claims of steps that have not run.
func (x *Executor) endAhead(ctx context.Context) {
	x.late.hold = false
	if x.record.Ahead != nil {
		x.record.Withdraw(context.WithoutCancel(ctx), x.host)
		x.saveLate(ctx)
	}
}
