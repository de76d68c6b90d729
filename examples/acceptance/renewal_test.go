package acceptance_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/netproxy"
)

const (
	// renewalWait bounds the time until nodejoin-node has renewed a token: it looks once a minute.
	renewalWait = 3 * time.Minute
	// reloadWait bounds the time until a program uses the token that is in its file. client-go reads it once a minute
	// (k8s.io/client-go transport/token_source.go).
	reloadWait = 3 * time.Minute
)

// renewal are the programs whose tokens nodejoin-node has renewed.
type renewal struct {
	began time.Time
	pids  map[string]int    // of the programs
	ids   map[string]string // of their new tokens, as the audit log names them
}

// renewTokens: the tokens of flanneld and kube-proxy get into the last third of their lives. nodejoin-node renews each
// by the token's own right.
func (b *bed) renewTokens(ctx context.Context, t *testing.T) renewal {
	t.Helper()
	programs := map[string]string{"flanneld.exe": tokenFolder + `\flannel.token`,
		"kube-proxy.exe": tokenFolder + `\kube-proxy.token`}
	r := renewal{pids: map[string]int{}, ids: map[string]string{}}
	old, began := map[string]string{}, time.Now()
	for program, file := range programs {
		r.pids[program] = processOf(t, program)
		token, err := b.cluster.Aged(string(b.read(file)), 50*time.Minute, 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.host.Path(file), []byte(token), 0o600); err != nil { // it keeps its access
			t.Fatal(err)
		}
		old[program] = token
	}
	wait, cancel := context.WithTimeoutCause(ctx, renewalWait, fmt.Errorf("not renewed within %v", renewalWait))
	defer cancel()
	for program, file := range programs {
		for string(b.read(file)) == old[program] {
			b.wait(wait, file+" has its old token: "+tail(b.bootLog()))
		}
		var err error
		if r.ids[program], err = controlplane.TokenID(string(b.read(file))); err != nil {
			t.Fatal(err)
		}
	}
	r.began = time.Now()
	t.Logf("the tokens were renewed %.1fs after they got old", r.began.Sub(began).Seconds())
	return r
}

// wantRenewed: the programs, which nobody has restarted, use their new tokens for what they ask next. The API server,
// which they reach through the proxy, has never answered 401.
func (b *bed) wantRenewed(ctx context.Context, t *testing.T, r renewal, toAPI *netproxy.Proxy) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, reloadWait, fmt.Errorf("not used within %v", reloadWait))
	defer cancel()
	for program, id := range r.ids {
		for !b.usesToken(t, program, id) {
			toAPI.Cut() // a watch goes on with the token that it began with
			b.wait(ctx, program+" does not use its new token")
		}
		t.Logf("%s uses its new token at most %.1fs after the renewal", program, time.Since(r.began).Seconds())
		if pid := processOf(t, program); pid != r.pids[program] {
			t.Errorf("%s was restarted", program)
		}
	}
	b.wantAudited(t, len(r.ids))
}

// usesToken reports whether the API server has answered a request of the program with the token.
func (b *bed) usesToken(t *testing.T, program, id string) bool {
	t.Helper()
	events, err := b.cluster.Audited()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(events, func(e controlplane.AuditEvent) bool {
		return strings.HasPrefix(e.UserAgent, program+"/") && e.ResponseStatus.Code == http.StatusOK &&
			slices.Contains(e.User.Extra["authentication.kubernetes.io/credential-id"], id)
	})
}

// wantAudited: nodejoin-node has got that many tokens, and no request had an answer 401.
func (b *bed) wantAudited(t *testing.T, tokens int) {
	t.Helper()
	events, err := b.cluster.Audited()
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for _, e := range events {
		if e.UserAgent == "nodejoin-node" && e.ObjectRef.Subresource == "token" &&
			e.ResponseStatus.Code == http.StatusCreated {
			got++
		}
		if e.ResponseStatus.Code == http.StatusUnauthorized {
			t.Errorf("the API server answered 401 to %s: %+v", e.UserAgent, e)
		}
	}
	if got != tokens {
		t.Errorf("nodejoin-node got %d tokens, want %d", got, tokens)
	}
}
