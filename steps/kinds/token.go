package kinds

import (
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// tokenEnds says why a token must be renewed, "" if it need not. A token of a
// short life is renewed in its last third, whatever renew says: an API server may
// give less life than was asked for.
func tokenEnds(token string, now time.Time, renew time.Duration) string {
	t, err := kube.ParseToken(token)
	if err != nil {
		return "the token in it does not say how long it is valid"
	}
	return ends(t, now, renew)
}

// ends is tokenEnds of a token that was read; renew 0 = in its last third.
func ends(t kube.Token, now time.Time, renew time.Duration) string {
	switch {
	case t.Ends.IsZero():
		return ""
	case !now.Before(t.Ends):
		return "the token in it ended at " + t.Ends.UTC().Format(time.RFC3339)
	case t.LastThird(now, renew):
		return "the token in it ends at " + t.Ends.UTC().Format(time.RFC3339)
	}
	return ""
}

// hideToken leaves a token that is only a reference.
func hideToken(token string, shown func(string) string) string {
	if refs := steps.Refs(token); token == "" || len(refs) == 1 && token == steps.Ref(refs[0]) {
		return token
	}
	return shown(token)
}
