package kube

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// TokenRequest asks for a token of a service account.
type TokenRequest struct {
	Namespace, Name string
	TTL             time.Duration
	NodeTTL         time.Duration // instead of TTL where the token is bound to the Node itself; 0 = TTL
	// Node is the Node that the token ends with, and UID its UID; Node "" = the token ends with its account only.
	Node, UID string
	// Secret is one of the account's namespace that the token ends with, where Node is ""; "" = none.
	Secret string
}

// AccountOf is the name of the account that a Node has for itself where the API server cannot limit the account that
// all Nodes share.
func AccountOf(name, node string) string { return name + "." + node }

// TokenSecret is the name of the Secret that stands for a Node where the API server binds no tokens to Nodes. It is
// in the account's namespace, and the Node owns it.
func TokenSecret(uid string) string { return "nodejoin-token-" + uid }

// Token is what a token of a service account says of itself. Nothing of it is verified.
type Token struct {
	Issued, Ends time.Time // zero = it does not say
	// Account is NAMESPACE/NAME; "" = it is of no service account.
	Account string
	// BoundKind, BoundName and BoundUID are the Node or Secret that it ends with; "" = none.
	BoundKind, BoundName, BoundUID string
}

// ParseToken reads the claims of a JSON web token (RFC 7519), as the API server writes them (kubernetes
// pkg/serviceaccount/claims.go).
func ParseToken(token string) (Token, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Token{}, errors.New("it is not a JSON web token")
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Token{}, err
	}
	type object struct{ Name, UID string }
	var c struct {
		Issued     float64                             `json:"iat"` // seconds since 1970
		Expires    float64                             `json:"exp"`
		Subject    string                              `json:"sub"`
		Kubernetes struct{ Node, Secret, Pod *object } `json:"kubernetes.io"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return Token{}, err
	}
	var t Token
	at := func(seconds float64) time.Time {
		if seconds <= 0 {
			return time.Time{}
		}
		return time.Unix(int64(seconds), 0)
	}
	t.Issued, t.Ends = at(c.Issued), at(c.Expires)
	if account, ok := strings.CutPrefix(c.Subject, "system:serviceaccount:"); ok {
		t.Account = strings.Replace(account, ":", "/", 1)
	}
	for _, b := range []struct {
		kind string
		to   *object
	}{{"Pod", c.Kubernetes.Pod}, {"Secret", c.Kubernetes.Secret}, {"Node", c.Kubernetes.Node}} {
		if b.to != nil { // a pod's token names its Node as well
			t.BoundKind, t.BoundName, t.BoundUID = b.kind, b.to.Name, b.to.UID
			break
		}
	}
	return t, nil
}

// EndsWith reports whether the token ends with the Node of that UID.
func (t Token) EndsWith(uid string) bool {
	return t.BoundKind == "Node" && t.BoundUID == uid || t.BoundKind == "Secret" && t.BoundName == TokenSecret(uid)
}

// LastThird reports whether a third of the token's life is left, but not more than longest (0 = without that bound).
// A token that does not say when it ends has no last third.
func (t Token) LastThird(now time.Time, longest time.Duration) bool {
	if t.Ends.IsZero() {
		return false
	}
	left := longest
	if !t.Issued.IsZero() {
		third := t.Ends.Sub(t.Issued) / 3
		if left == 0 || third < left {
			left = third
		}
	}
	return t.Ends.Sub(now) <= left
}
