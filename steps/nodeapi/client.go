// Package nodeapi makes the requests that the service of a node sends to its API server: a new token for the one that
// it has, a condition of its Node and events about it. It is part of the agent, which has no client-go.
package nodeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"nodejoin/steps"
)

const (
	// limit bounds one request with its answer.
	limit = 20 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes; a Node with 50 images has about 30 kB.
	maxAnswer = 4 << 20
)

// Client sends requests with the token that each names. Like other programs of a node it uses the proxy of its
// environment, and trusts the cluster's CA alone. Its zero value is ready.
type Client struct{}

// request sends one request and decodes the answer into out. No redirect is followed: the token is for one server
// only.
func (Client) request(ctx context.Context, at steps.TokenRenewal, method, path string, body, out any) error {
	u, err := url.Parse(at.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not the https address of an API server", at.Server)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(at.CA) {
		return errors.New("the kubeconfig has no CA of the API server")
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %s", limit))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.JoinPath(path).String(), bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+at.Token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "nodejoin-node")
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("the API server %s: %w", u.Host, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("the API server %s: %w", u.Host, err)
	}
	if resp.StatusCode/100 != 2 {
		return &StatusError{Code: resp.StatusCode, Message: message(answer)}
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("the API server %s responds, but not like an API server: %w", u.Host, err)
	}
	return nil
}

// StatusError is an API server's refusal.
type StatusError struct {
	Code    int // of HTTP
	Message string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the API server answered %d %s", e.Code, http.StatusText(e.Code))
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// message is that of a Status object (metav1.Status), "" if the answer is none.
func message(answer []byte) string {
	var s struct{ Kind, Message string }
	if json.Unmarshal(answer, &s) != nil || s.Kind != "Status" {
		return ""
	}
	const most = 500
	if len(s.Message) > most {
		s.Message = s.Message[:most] + "..."
	}
	return s.Message
}
