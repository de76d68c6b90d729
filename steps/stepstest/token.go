package stepstest

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"nodejoin/steps/kube"
)

// TestToken is an unsigned token of a service account, issued now, that ends with the Node of that UID.
func TestToken(namespace, name, uid string, life time.Duration) string {
	return testToken(namespace, name, life, "node", map[string]string{"name": "win-1", "uid": uid})
}

// SecretToken is the same, bound to the Secret that stands for the Node.
func SecretToken(namespace, name, uid string, life time.Duration) string {
	return testToken(namespace, name, life, "secret", map[string]string{"name": kube.TokenSecret(uid), "uid": "s"})
}

func testToken(namespace, name string, life time.Duration, kind string, to map[string]string) string {
	now := time.Now()
	claims, err := json.Marshal(map[string]any{"sub": "system:serviceaccount:" + namespace + ":" + name,
		"iat": now.Unix(), "exp": now.Add(life).Unix(),
		"kubernetes.io": map[string]any{kind: to}})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".sig"
}
