package nodeapi

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/stepstest"
)

// serve answers requests for tokens, and returns access to them with a token.
func serve(t *testing.T, token string, answer http.HandlerFunc) steps.TokenRenewal {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return steps.TokenRenewal{Server: s.URL, CA: ca, Token: token}
}

func minted(w http.ResponseWriter, token string) {
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "TokenRequest", "status": map[string]string{"token": token}})
}

// TestRenew: the request is for the same account, life and Node, and is authorized by the token itself.
func TestRenew(t *testing.T) {
	old := stepstest.TestToken("ns", "flannel", "uid-1", 90*time.Minute)
	next := stepstest.TestToken("ns", "flannel", "uid-1", 2*time.Hour)
	at := serve(t, old, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		const want = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":5400,` +
			`"boundObjectRef":{"apiVersion":"v1","kind":"Node","name":"win-1","uid":"uid-1"}}}`
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/ns/serviceaccounts/flannel/token" ||
			r.Header.Get("Authorization") != "Bearer "+old || string(body) != want {
			t.Errorf("%s %s %v\n%s", r.Method, r.URL, r.Header, body)
		}
		minted(w, next)
	})
	if got, err := (Client{}).Renew(t.Context(), at); err != nil || got != next {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRenewRefuses: an answer that is not a token of the same account and Node is an error. No error shows a token.
func TestRenewRefuses(t *testing.T) {
	old := stepstest.TestToken("ns", "flannel", "uid-1", time.Hour)
	elsewhere := serve(t, old, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"another account": {func(w http.ResponseWriter, _ *http.Request) {
			minted(w, stepstest.TestToken("ns", "admin", "uid-1", time.Hour))
		}, "of another account"},
		"another Node": {func(w http.ResponseWriter, _ *http.Request) {
			minted(w, stepstest.TestToken("ns", "flannel", "uid-2", time.Hour))
		}, "not bound to the Node"},
		"no token": {func(w http.ResponseWriter, _ *http.Request) { minted(w, "") }, "the new token"},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","message":"serviceaccounts is forbidden"}`)
		}, "403 Forbidden: serviceaccounts is forbidden"},
		"no API server": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
			"not like an API server"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.Server, http.StatusTemporaryRedirect)
		}, "307 Temporary Redirect"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Client{}.Renew(t.Context(), serve(t, old, c.answer))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), old) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestRenewAsksNobody: without a token that is bound to a Node, a CA or https, nothing is sent.
func TestRenewAsksNobody(t *testing.T) {
	token := stepstest.TestToken("ns", "flannel", "uid-1", time.Hour)
	good := serve(t, token, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	change := func(f func(*steps.TokenRenewal)) steps.TokenRenewal {
		r := good
		f(&r)
		return r
	}
	for name, c := range map[string]struct {
		r    steps.TokenRenewal
		want string
	}{
		"http": {change(func(r *steps.TokenRenewal) {
			r.Server = strings.Replace(r.Server, "https", "http", 1)
		}), "https"},
		"no CA":    {change(func(r *steps.TokenRenewal) { r.CA = nil }), "no CA"},
		"no token": {change(func(r *steps.TokenRenewal) { r.Token = "x" }), "the token"},
		"of a Secret": {change(func(r *steps.TokenRenewal) {
			r.Token = stepstest.SecretToken("ns", "flannel", "uid-1", time.Hour)
		}), "bound to Secret"},
	} {
		_, err := Client{}.Renew(t.Context(), c.r)
		var se *steps.Error
		if errors.As(err, &se) {
			err = errors.New(se.Detail)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestRenewTrustsOnlyTheCA: a server with another certificate gets no token.
func TestRenewTrustsOnlyTheCA(t *testing.T) {
	token := stepstest.TestToken("ns", "flannel", "uid-1", time.Hour)
	r := serve(t, token, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	r.CA = []byte(stepstest.TestCA(t))
	if _, err := (Client{}).Renew(t.Context(), r); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
}
