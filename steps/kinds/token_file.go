package kinds

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
	"nodejoin/steps/record"
)

var tokenFileKind = steps.Kind{Name: "token_file", Place: steps.OnHost,
	Doc: "a token of a service account in a file of its own, private to the system; programs whose kubeconfig names " +
		"the file (tokenFile) read it again every minute",
	Args: map[string]string{
		"token": "the token; without one the step judges the token in the file, and fails when that must be renewed: " +
			"only the service nodejoin-node of the machine renews it then",
	},
	New: func() any { return &TokenFile{} }, Credentials: steps.Credentials((*TokenFile).credentials),
	Makes: steps.Makes((*TokenFile).thing), Claims: steps.Claims((*TokenFile).claims),
	Secrets: steps.Secrets((*TokenFile).secrets)}

// TokenFile is a file that holds a token and nothing else. It is in order when the token is the account's, ends with
// the Node, and has more than a third of its life left. While Token is not known the token in the file is judged
// alone.
type TokenFile struct {
	Path       string `json:"path" doc:"absolute path" id:"true" path:"true"`
	Token      string `json:"token,omitempty"`
	Account    string `json:"account" doc:"the token's account, NAMESPACE/NAME; a token of NAME.NODE is accepted, too"`
	NodeUID    string `json:"node_uid,omitempty" doc:"UID of the Node that the token ends with; default any or none"`
	Kubeconfig string `json:"kubeconfig,omitempty" doc:"kubeconfig that names the file, for its renewal" path:"true"`
}

func (f *TokenFile) thing(string) steps.Thing {
	return steps.Thing{Key: record.File.Of(f.Path), Words: "the file " + f.Path}
}

func (f *TokenFile) claims(*steps.Env) []record.Key { return []record.Key{record.File.Of(f.Path)} }

func (f *TokenFile) secrets(shown func(string) string) { f.Token = hideToken(f.Token, shown) }

func (f *TokenFile) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if f.Path == "" || f.Account == "" {
		return steps.Change{}, steps.Invalid("token_file needs a path and an account")
	}
	have, err := host.ReadFile(ctx, r, f.Path, host.MaxText)
	if err != nil {
		return steps.Change{}, err
	}
	token := steps.Diff{Name: "token", Sensitive: true}
	c := steps.Change{Action: steps.ActionUpdate, Touches: []steps.Touch{{Path: f.Path}}}
	switch {
	case have == nil:
		c.Action, c.Diffs = steps.ActionCreate, []steps.Diff{token}
		return c, nil
	case have.Truncated:
		c.Reason = "what is there is not a token"
	case f.Token == "" || steps.HasRef(f.Token):
		c.Reason = f.wrong(strings.TrimSpace(string(have.Content)), e.Node, clock(e))
	case strings.TrimSpace(string(have.Content)) != f.Token:
		c.Reason = "another token"
	}
	if c.Reason != "" {
		c.Diffs = append(c.Diffs, token)
	}
	c.Diffs = append(c.Diffs, accessDiff(e.Facts.OS, have.Access, host.AccessPrivate)...)
	if len(c.Diffs) == 0 {
		return steps.Change{}, nil
	}
	return c, nil
}

// wrong says why a token is not the one to have, "" if it is.
func (f *TokenFile) wrong(text, node string, now time.Time) string {
	t, err := kube.ParseToken(text)
	switch {
	case err != nil:
		return "what is there is not a token"
	case !f.isOf(t, node):
		return "the token is of another account, " + t.Account
	case steps.HasRef(f.NodeUID):
		return "the Node is not known yet"
	case f.NodeUID != "" && !t.EndsWith(f.NodeUID):
		return "the token does not end with the Node"
	}
	return ends(t, now, 0)
}

// isOf reports whether the token is of the account, or of the one that the Node has for itself in its place.
func (f *TokenFile) isOf(t kube.Token, node string) bool {
	return t.Account == f.Account || t.Account == kube.AccountOf(f.Account, node)
}

func (f *TokenFile) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	token := f.Token
	if token == "" {
		var err error
		if token, err = f.renewed(ctx, h, e); err != nil {
			return steps.Outcome{}, err
		}
	}
	if err := claimFile(ctx, h, e, f.Path, true); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, h.WriteFile(ctx, f.Path, bytes.NewReader([]byte(token)),
		host.WriteOptions{Access: host.AccessPrivate})
}

// renewed is the token that takes the place of the one in the file; that one stays if it is in order.
func (f *TokenFile) renewed(ctx context.Context, h host.Host, e *steps.Env) (string, error) {
	if e.Tokens == nil {
		return "", steps.Invalid("token_file %s has no token", f.Path)
	}
	at, err := f.Access(ctx, h)
	if err != nil {
		return "", err
	}
	old, now := at.Token, clock(e)
	why := f.wrong(old, e.Node, now)
	if why == "" {
		return old, nil // only its access is wrong
	}
	have, err := kube.ParseToken(old)
	if err != nil || !f.isOf(have, e.Node) || !have.Ends.IsZero() && !now.Before(have.Ends) {
		return "", f.unrenewable(why)
	}
	return e.Tokens.Renew(ctx, at)
}

// Access is the token in the file, and where it is valid: the server of the kubeconfig.
func (f *TokenFile) Access(ctx context.Context, r host.FilesReader) (steps.TokenRenewal, error) {
	var text [2][]byte
	for i, path := range []string{f.Path, f.Kubeconfig} {
		file, err := host.ReadFile(ctx, r, path, host.MaxText)
		if err != nil {
			return steps.TokenRenewal{}, err
		}
		if file == nil {
			return steps.TokenRenewal{}, f.unrenewable(path + " does not exist")
		}
		text[i] = file.Content
	}
	at, err := parseKubeconfig(text[1])
	if err != nil {
		return steps.TokenRenewal{}, f.unrenewable(fmt.Sprintf("%s cannot be read as a kubeconfig: %v", f.Kubeconfig, err))
	}
	return steps.TokenRenewal{Server: at.server, CA: at.ca, Token: strings.TrimSpace(string(text[0]))}, nil
}

// clock is the time by which tokens are judged.
func clock(e *steps.Env) time.Time {
	if e.Clock != nil {
		return e.Clock()
	}
	return time.Now()
}

func (f *TokenFile) unrenewable(why string) error {
	return &steps.Error{Code: steps.CodeFailed, Summary: "the token cannot be renewed here", Detail: f.Path + ": " + why,
		Remedy: "run nodejoin apply, which gets a new token from the cluster"}
}

func (f *TokenFile) credentials(ctx context.Context, r host.FilesReader, _ string) ([]steps.Credential, error) {
	text, err := textOf(ctx, r, f.Path)
	return tokenLife(f.Path, text), err
}
