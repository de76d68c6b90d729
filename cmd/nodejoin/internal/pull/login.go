package pull

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"nodejoin/steps"
)

// login is the file of the login at the server of a source: a user with a password, or a token.
type login struct {
	Host     string `json:"host"` // host or host:port that alone gets it; "" = that of the source, whatever it is
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
		l = own.at(u.Host)
		l.From = "the file " + f.Login
		if _, ok := steps.LoginAt(steps.WithLogins(ctx, []steps.Login{l}), u.Host); !ok {
			return nil, &ownError{fmt.Errorf("the login %s is for the server %s, and source is at %s, which does not "+
				"get it; apply the plan to this node once from a controller, or correct the file", f.Login, l.Server,
				u.Host)}
		}
	}
	return steps.WithLogins(ctx, []steps.Login{l}), nil
}

// at is the login at its server; host is that of the source.
func (l login) at(host string) steps.Login {
	return steps.Login{Server: cmp.Or(l.Host, host), Username: l.Username, Password: l.Password, Token: l.Token}
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
		return login{}, fmt.Errorf(`the login %s must be {"username": ..., "password": ...} or {"token": ...}, `+
			`and may have a "host"`, file)
	}
	return l, nil
}
