package pull

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"

	"nodejoin/plan"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
)

// login is the file of the login at the server of a source: a user with a password, or a token.
type login struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Token    string `json:"token"`
}

// withLogin returns a context in which the source is read with the login of the file. No other server gets it.
func (f *File) withLogin(ctx context.Context) (context.Context, error) {
	u, _ := url.Parse(f.Source)   // nil = it is a path, too
	if u == nil || u.Host == "" { // a path; check refuses a login with it
		return ctx, nil
	}
	l := steps.Login{Server: u.Host,
		From: "a login block in the follow block of the plan (or \"login\" in the file of the machine)"}
	if f.Login != "" {
		own, err := readLogin(f.Login)
		if err != nil {
			return nil, &ownError{err}
		}
		l.Username, l.Password, l.Token, l.From = own.Username, own.Password, own.Token, "the file "+f.Login
	}
	return steps.WithLogins(ctx, []steps.Login{l}), nil
}

// needsLogin reports a release that gives this machine a login, which it does not have: a release has no passwords.
func needsLogin(p *plan.Compiled) error {
	for _, n := range p.Nodes {
		if slices.ContainsFunc(n.Steps, func(s steps.Spec) bool { return s.ID == recipe.FollowLoginStep }) {
			return &steps.Error{Code: steps.CodeInvalid,
				Summary: "the release needs a login that this machine does not have",
				Detail:  "the follow block of node " + n.Name + " has a login, and a release has no passwords",
				Remedy:  "apply the plan to this node once from a controller, which has them"}
		}
	}
	return nil
}

// readLogin reads a login, which nobody else on the machine may read. Its text is in no error.
func readLogin(file string) (l login, err error) {
	if err := private(file); err != nil {
		return l, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return l, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if d.Decode(&l) != nil || (l.Token == "") == (l.Username == "" || l.Password == "") ||
		l.Token != "" && l.Username+l.Password != "" {
		return login{}, fmt.Errorf(`the login %s must be {"username": ..., "password": ...} or {"token": ...}`, file)
	}
	return l, nil
}
