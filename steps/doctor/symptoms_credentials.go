package doctor

import (
	"context"
	"fmt"
	"time"

	"nodejoin/steps"
)

// credentialSymptoms are about the ends of what the node authenticates with and trusts.
var credentialSymptoms = []symptom{
	{id: "credential-ended", severity: steps.SeverityError,
		why:  "the API server refuses a credential that has ended, and the node's programs with it",
		look: func(ctx context.Context, x *diagnosis) ([]finding, error) { return x.credentials(ctx, true) }},
	{id: "credential-ends", severity: steps.SeverityWarning,
		why: "tokens are renewed before their last third, the kubelet's certificates before their last tenth; what is " +
			"older was not renewed in time", look: func(ctx context.Context, x *diagnosis) ([]finding, error) {
			return x.credentials(ctx, false)
		}},
}

// credentials are those that have ended, or those that should have been renewed and have not ended yet.
func (x *diagnosis) credentials(ctx context.Context, ended bool) (out []finding, err error) {
	now := x.c.Clock
	if now.IsZero() {
		now = time.Now()
	}
	for _, s := range x.steps {
		if s.kind.Credentials == nil {
			continue
		}
		list, err := s.kind.Credentials(ctx, s.args, x.r, x.e.Facts.OS)
		if err != nil {
			return out, err
		}
		for _, c := range list {
			past := !now.Before(c.Ends)
			if past != ended || !past && now.Before(c.Late) {
				continue
			}
			verb := "ends"
			if past {
				verb = "ended"
			}
			f := finding{observed: observed{fmt.Sprintf("the %s in %s %s at %s", c.What, c.Path, verb,
				c.Ends.UTC().Format(time.RFC3339)), "restart the kubelet, which requests a new one; if it does not get one, see " +
				"`kubectl get csr`"}}
			switch c.What {
			case "token":
				f.remedy, f.fix = "apply the plan, which gets a new token", []string{s.id}
			case "CA":
				f.remedy = "give the cluster a new CA, and apply the plan"
			}
			out = append(out, f)
		}
	}
	return out, nil
}
