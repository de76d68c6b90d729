package stepstest

import (
	"encoding/base64"
	"encoding/json"
	"time"
)

// TestToken is an unsigned token of a service account, issued now, that ends with the Node of that UID.
func TestToken(namespace, name, uid string, life time.Duration) string {
	now := time.Now()
	claims, err := json.Marshal(map[string]any{"sub": "system:serviceaccount:" + namespace + ":" + name,
		"iat": now.Unix(), "exp": now.Add(life).Unix(),
		"kubernetes.io": map[string]any{"node": map[string]string{"name": "win-1", "uid": uid}}})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".sig"
}
