package nodeapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// minLife is the shortest life that the API server grants (pkg/apis/authentication/validation).
const minLife = 10 * time.Minute

// tokenRequest is authentication.k8s.io/v1 TokenRequest.
type tokenRequest struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Spec       tokenSpec   `json:"spec"`
	Status     tokenStatus `json:"status,omitzero"`
}

type tokenSpec struct {
	Seconds int64   `json:"expirationSeconds"`
	Bound   binding `json:"boundObjectRef"`
}

type binding struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

type tokenStatus struct {
	Token string `json:"token"`
}

var _ steps.Tokens = Client{}

// Renew requests a token of the same account and life, bound to the same Node, as the token itself. One that is bound
// to a Secret is renewed by apply only: API servers that bind to Secrets cannot limit what a token may request.
func (c Client) Renew(ctx context.Context, r steps.TokenRenewal) (string, error) {
	old, err := kube.ParseToken(r.Token)
	if err != nil {
		return "", fmt.Errorf("the token: %w", err)
	}
	namespace, account, ok := strings.Cut(old.Account, "/")
	if !ok || old.BoundKind != "Node" {
		return "", &steps.Error{Code: steps.CodeFailed, Summary: "the token cannot be renewed here",
			Detail: "a token renews itself if it is a service account's and is bound to a Node; this one is bound to " +
				cmp.Or(old.BoundKind, "nothing"),
			Remedy: "run nodejoin apply, which gets a new token from the cluster"}
	}
	life := max(old.Ends.Sub(old.Issued), minLife)
	ask := tokenRequest{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest",
		Spec: tokenSpec{Seconds: int64(life / time.Second),
			Bound: binding{APIVersion: "v1", Kind: "Node", Name: old.BoundName, UID: old.BoundUID}}}
	var got tokenRequest
	err = c.request(ctx, r, http.MethodPost, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/serviceaccounts/"+
		url.PathEscape(account)+"/token", ask, &got)
	if err != nil {
		return "", err
	}
	t, err := kube.ParseToken(got.Status.Token)
	if err != nil {
		return "", fmt.Errorf("the new token: %w", err)
	}
	if t.Account != old.Account || t.BoundKind != "Node" || t.BoundUID != old.BoundUID {
		return "", errors.New("the new token is of another account, or is not bound to the Node")
	}
	return got.Status.Token, nil
}
