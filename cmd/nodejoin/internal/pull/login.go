package pull

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"

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
	if f.Login == "" {
		return ctx, nil
	}
	l, err := readLogin(f.Login)
	if err != nil {
		return nil, &ownError{err}
	}
	u, err := url.Parse(f.Source)
	if err != nil || u.Host == "" {
		return nil, &ownError{errors.New("login is for a source on a server, and this one is not")}
	}
	return steps.WithLogins(ctx, []steps.Login{{Server: u.Host, Username: l.Username, Password: l.Password,
		Token: l.Token}}), nil
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
