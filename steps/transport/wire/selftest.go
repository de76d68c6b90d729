package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nodejoin/steps/executor"
	"nodejoin/steps/selftest"
)

// SelfTest makes the calls that nodejoin makes on a machine, on things of its own, and removes them.
var SelfTest = Call[selftest.Request, selftest.Report]{
	Method: "selftest",
	Run: func(x *executor.Executor, ctx context.Context, req selftest.Request) (selftest.Report, error) {
		return selftest.Run(ctx, x.Host(), req)
	},
	Bound: func(selftest.Request) Bound {
		b := reading(0)
		b.Within = selftest.Within + grace
		return b
	},
	Verify: verifySelfTest,
}

func verifySelfTest(_ selftest.Request, r selftest.Report) error {
	switch {
	case r.Version != selftest.Version:
		return fmt.Errorf("a self-test of version %d", r.Version)
	case r.Build == "" || len(r.Results) == 0:
		return errors.New("a self-test without a build, or without results")
	case r.Run != "":
		return errors.New("the address of a run, which no machine knows")
	case r.AsBefore != (len(r.Differs) == 0):
		return fmt.Errorf("a machine that is as before (%v), with %d differences", r.AsBefore, len(r.Differs))
	}
	for _, one := range r.Results {
		if !slices.Contains(selftest.Outcomes, one.Outcome) || !slices.Contains(selftest.Areas(), one.Area) ||
			one.Name == "" {
			return fmt.Errorf("the result %q of the area %q for %q", one.Outcome, one.Area, one.Name)
		}
	}
	return nil
}
