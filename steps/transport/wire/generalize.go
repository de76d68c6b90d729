package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nodejoin/steps/executor"
	"nodejoin/steps/generalize"
)

// Generalize makes a machine fit to be copied.
var Generalize = Call[generalize.Request, generalize.Reply]{
	Method: "generalize",
	Run: func(x *executor.Executor, ctx context.Context, req generalize.Request) (generalize.Reply, error) {
		h, e, err := x.Machine(ctx, req.Node, "generalize")
		if err != nil {
			return generalize.Reply{}, err
		}
		return generalize.Run(ctx, h, e, req)
	},
	Bound: func(generalize.Request) Bound {
		b := undoing()
		b.Within, b.Silence = generalize.Within+grace, 0
		return b
	},
	Private: func(req generalize.Request) bool { return len(req.Secrets) > 0 },
	Verify:  verifyGeneralize,
}

func verifyGeneralize(req generalize.Request, r generalize.Reply) error {
	switch {
	case r.Files < 0 || r.Files == 0 && len(r.Left) == 0 && !req.Check:
		return errors.New("an image that was not searched")
	case req.Check && len(r.Removed) > 0:
		return errors.New("a check that removed something")
	}
	for _, f := range slices.Concat(r.Removed, r.Left) {
		if f.Path == "" || !slices.Contains(generalize.Whats, f.What) {
			return fmt.Errorf("%q at the path %q", f.What, f.Path)
		}
	}
	return nil
}
