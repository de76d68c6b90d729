package pull

import (
	"context"
	"encoding/json"
	"fmt"

	"nodejoin/plan"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// keepsLogin fails if a release gives a node a login that this machine does not have, takes away its own, or has it
// sent to another server: a release has no passwords, and does not say who gets those of the machine.
func (f *File) keepsLogin(ctx context.Context, own steps.Login, rel Release, n plan.Node) error {
	const remedy = "; apply that plan once from a controller"
	at, given := loginOf(n)
	ctx = steps.WithLogins(ctx, []steps.Login{own})
	_, same := steps.LoginAt(ctx, at)
	switch has := own.Username+own.Token != ""; {
	case given && !has:
		return fmt.Errorf("release %d gives node %s a login that this machine does not have, and a release has no "+
			"passwords"+remedy, rel.Serial, n.Name)
	case given && !same:
		return fmt.Errorf("release %d would send the login of node %s to %s, and it is for %s"+remedy,
			rel.Serial, n.Name, at, own.Server)
	case !given && has && f.Managed:
		return fmt.Errorf("release %d has no login in the follow block of node %s: it would remove the one that this "+
			"machine reads releases with"+remedy, rel.Serial, n.Name)
	}
	return nil
}

// loginOf is the server of the login that a plan gives a node.
func loginOf(n plan.Node) (server string, given bool) {
	for _, s := range n.Steps {
		if f, ok := kinds.As[kinds.File](s); ok && s.ID == recipe.FollowLoginStep {
			var l login
			_ = json.Unmarshal([]byte(f.Content), &l) // the recipe has written it; else there is no server
			return l.Host, true
		}
	}
	return "", false
}
