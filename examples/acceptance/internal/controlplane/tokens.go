package controlplane

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// TokenID is how the audit log names a token of a ServiceAccount: "JTI=..."
// (kubernetes staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go, CredentialIDForJTI).
func TokenID(token string) (string, error) {
	_, claims, err := parseToken(token)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("JTI=%s", claims["jti"]), nil
}

// Aged returns a token like this one that was issued a while ago and ends soon. The API server's key signs it.
func (c *Cluster) Aged(token string, age, left time.Duration) (string, error) {
	header, claims, err := parseToken(token)
	if err != nil {
		return "", err
	}
	now := time.Now()
	claims["iat"], claims["nbf"], claims["exp"] = now.Add(-age).Unix(), now.Add(-age).Unix(), now.Add(left).Unix()
	claims["jti"] = fmt.Sprintf("%s-aged", claims["jti"])
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(c.path("sa.key"))
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("sa.key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", err
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return "", fmt.Errorf("sa.key is of type %T", parsed)
	}
	signed := header + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// parseToken returns the first part of a token as it is, and the claims of the second.
func parseToken(token string) (header string, claims map[string]any, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", nil, errors.New("this is not a token of a ServiceAccount")
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(body, &claims)
	}
	return parts[0], claims, err
}

// AuditEvent is what the tests read of a line of the audit log (audit.k8s.io/v1, Event).
type AuditEvent struct {
	Stage     string
	Verb      string
	UserAgent string
	User      struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef struct {
		Resource    string
		Name        string
		Subresource string
	}
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp time.Time
}

// Audited returns the requests that the API server has answered so far, without the line that is being written. It
// needs Options.Audit.
func (c *Cluster) Audited() ([]AuditEvent, error) {
	text, err := os.ReadFile(c.path("audit.log"))
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	var out []AuditEvent
	for line := range bytes.Lines(text) {
		var e AuditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		if e.Stage == "ResponseStarted" || e.Stage == "ResponseComplete" {
			out = append(out, e)
		}
	}
	return out, nil
}

// auditing are the flags of an API server with an audit log of all requests, none without Options.Audit.
func (c *Cluster) auditing() ([]string, error) {
	if !c.opts.Audit {
		return nil, nil
	}
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\nomitStages: [RequestReceived]\n"
	return []string{"--audit-policy-file=" + c.path("audit-policy.yaml"), "--audit-log-path=" + c.path("audit.log")},
		os.WriteFile(c.path("audit-policy.yaml"), []byte(policy), 0o600)
}
