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

// renewal is that of the tokens of a node's programs.
type renewal struct {
	cluster *controlplane.Cluster
	toAPI   *netproxy.Proxy   // through which the node reaches the API server
	files   map[string]string // with the token of each program, on this machine
	old     map[string]string // tokens
	pids    map[string]int
	began   time.Time
}

// ageTokens replaces the tokens of the programs with some that are in the last third of their lives. files has the
// file of each program.
func ageTokens(t *testing.T, cluster *controlplane.Cluster, toAPI *netproxy.Proxy, files map[string]string) *renewal {
	t.Helper()
	r := &renewal{cluster: cluster, toAPI: toAPI, files: files, old: map[string]string{}, pids: map[string]int{},
		began: time.Now()}
	for program, file := range files {
		r.pids[program] = processOf(t, program)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if r.old[program], err = cluster.Aged(string(text), 50*time.Minute, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(r.old[program]), 0o600); err != nil { // it keeps its access
			t.Fatal(err)
		}
	}
	return r
}

// wantRenewed: nodejoin-node renews each token, by that token's own right.
func (r *renewal) wantRenewed(ctx context.Context, t *testing.T) {
	t.Helper()
	for program := range r.files {
		r.await(ctx, t, renewalWait, program+" has its old token",
			func() bool { return r.token(t, program) != r.old[program] })
	}
	t.Logf("the tokens were renewed at most %.1fs after they got old", time.Since(r.began).Seconds())
}

// wantUsed: the programs, which nobody has restarted, use their new tokens for what they ask next. The API server has
// never answered 401.
func (r *renewal) wantUsed(ctx context.Context, t *testing.T) {
	t.Helper()
	for program := range r.files {
		id, err := controlplane.TokenID(r.token(t, program))
		if err != nil {
			t.Fatal(err)
		}
		r.await(ctx, t, reloadWait, program+" does not use its new token", func() bool {
			used := r.uses(t, program, id)
			if !used {
				r.toAPI.Cut() // a watch goes on with the token that it began with
			}
			return used
		})
		t.Logf("%s uses its new token at most %.1fs after the old one got old", program, time.Since(r.began).Seconds())
		if pid := processOf(t, program); pid != r.pids[program] {
			t.Errorf("%s was restarted", program)
		}
	}
	r.wantAudited(t)
}

func (r *renewal) token(t *testing.T, program string) string {
	t.Helper()
	text, err := os.ReadFile(r.files[program])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// await waits for a state. not says what is the case until then.
func (r *renewal) await(ctx context.Context, t *testing.T, limit time.Duration, not string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	for !done() {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%v: %s", context.Cause(ctx), not)
		}
	}
}

// uses reports whether the API server has answered a request of the program with the token.
func (r *renewal) uses(t *testing.T, program, id string) bool {
	t.Helper()
	events, err := r.cluster.Audited()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(events, func(e controlplane.AuditEvent) bool {
		return strings.HasPrefix(e.UserAgent, program+"/") && e.ResponseStatus.Code == http.StatusOK &&
			slices.Contains(e.User.Extra["authentication.kubernetes.io/credential-id"], id)
	})
}

// wantAudited: nodejoin-node has got one token for each program, and no request had an answer 401.
func (r *renewal) wantAudited(t *testing.T) {
	t.Helper()
	events, err := r.cluster.Audited()
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
	if got != len(r.files) {
		t.Errorf("nodejoin-node got %d tokens, want %d", got, len(r.files))
	}
}
