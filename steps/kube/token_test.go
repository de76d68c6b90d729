package kube

import (
	"encoding/base64"
	"testing"
	"time"
)

func TestParseToken(t *testing.T) {
	jwt := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
	}
	full := `{"iat":1000,"exp":4000,"sub":"system:serviceaccount:ns:a","kubernetes.io":{"namespace":"ns",` +
		`"serviceaccount":{"name":"a","uid":"s"},`
	for claims, want := range map[string]Token{
		full + `"node":{"name":"n","uid":"u"}}}`: {BoundKind: "Node", BoundName: "n", BoundUID: "u"},
		full + `"secret":{"name":"nodejoin-token-u","uid":"x"}}}`: {BoundKind: "Secret", BoundName: "nodejoin-token-u",
			BoundUID: "x"},
		full + `"pod":{"name":"p","uid":"v"},"node":{"name":"n","uid":"u"}}}`: {BoundKind: "Pod", BoundName: "p",
			BoundUID: "v"},
	} {
		want.Issued, want.Ends, want.Account = time.Unix(1000, 0), time.Unix(4000, 0), "ns/a"
		have, err := ParseToken(jwt(claims))
		if err != nil || have != want {
			t.Errorf("%+v, %v; want %+v", have, err, want)
		}
		if have.EndsWith("u") != (want.BoundKind != "Pod") || have.EndsWith("w") {
			t.Errorf("%+v: ends with u: %v, with w: %v", have, have.EndsWith("u"), have.EndsWith("w"))
		}
	}
	for _, wrong := range []string{"", "a.b", "a.%%%.c", jwt("[")} {
		if have, err := ParseToken(wrong); err == nil {
			t.Errorf("%q: %+v", wrong, have)
		}
	}
}

func TestLastThird(t *testing.T) {
	now := time.Unix(3000, 0)
	at := func(issued, ends int64) Token { return Token{Issued: time.Unix(issued, 0), Ends: time.Unix(ends, 0)} }
	for _, c := range []struct {
		token   Token
		longest time.Duration
		want    bool
	}{
		{at(0, 4600), 0, false}, {at(0, 4500), 0, true}, {at(0, 2000), 0, true}, {Token{}, time.Hour, false},
		{Token{Ends: time.Unix(3100, 0)}, 99 * time.Second, false}, {at(0, 4500), time.Minute, false},
	} {
		if have := c.token.LastThird(now, c.longest); have != c.want {
			t.Errorf("%v, %v: %v", c.token, c.longest, have)
		}
	}
}
