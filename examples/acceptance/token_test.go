package acceptance_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokenBound bounds the run whose bootstrap token has ended: a cold join takes about
// 20 seconds on two cores, and the gate waits for half a minute.
const tokenBound = 3 * time.Minute

// TestTokenExpired: a bootstrap token that has expired when the kubelet first uses it.
// The run ends with one diagnostic, and the next one mints another token and finishes.
func TestTokenExpired(t *testing.T) {
	ctx, cancel := bounded(t, 10*time.Minute)
	defer cancel()
	b := newBed(ctx, t, startCluster(ctx, t))
	args := b.variables(b.host.Port()).write(t)
	expired := 0
	r := apply(ctx, t, args, func(e streamEvent, _ *os.Process) {
		if e.Type == "step_done" && e.Step == "join_token" {
			expired += b.expireTokens(ctx)
		}
	})
	if expired != 1 {
		t.Fatalf("%d tokens could expire, want 1: %s", expired, r)
	}
	if r.code != 1 || r.took > tokenBound {
		t.Errorf("want exit code 1 within %s: %s", tokenBound, r)
	}
	var failed []string
	for _, e := range r.events {
		if e.Type == "step_done" && e.Result == "failed" {
			failed = append(failed, e.Step)
		}
	}
	if len(failed) != 1 || failed[0] != "registered" {
		t.Errorf("failed steps %v, want registered alone: %s", failed, r)
	}
	text := unwrapped(r.stderr)
	for _, want := range []string{"Error: the bootstrap token has ended", "no certificate request of system:node:" +
		nodeName, "it has expired or was removed",
		"plan.join.hcl:" + fmt.Sprint(b.nodeLine()) + ",1", "What to do: apply again, which mints a new token"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output does not say %q:\n%s", want, r.stderr)
		}
	}
	if n := strings.Count(r.stderr, "Error: "); n != 1 {
		t.Errorf("%d errors, want one:\n%s", n, r.stderr)
	}

	mustApply(ctx, t, args)
	b.wantJoined(ctx)
	b.wantNoCredentialsLeft(ctx)
	wantNothing(ctx, t, args)
}

// unwrapped returns what was printed, without its frame and line breaks.
func unwrapped(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", " ")), " ")
}

// expireTokens makes all bootstrap tokens expire in the past and returns their number.
func (b *bed) expireTokens(ctx context.Context) int {
	b.t.Helper()
	secrets := b.cluster.Client.CoreV1().Secrets(metav1.NamespaceSystem)
	list, err := secrets.List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
	if err != nil {
		b.t.Error(err)
		return 0
	}
	for _, s := range list.Items {
		// RFC 3339, as k8s.io/cluster-bootstrap token/util reads it.
		s.Data["expiration"] = []byte(time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
		if _, err := secrets.Update(ctx, &s, metav1.UpdateOptions{}); err != nil {
			b.t.Error(err)
		}
	}
	return len(list.Items)
}

// nodeLine is the line of the example plan's node block.
func (b *bed) nodeLine() int {
	b.t.Helper()
	n := 0
	for line := range strings.Lines(string(exampleText(b.t))) {
		if n++; strings.HasPrefix(line, "node ") {
			return n
		}
	}
	b.t.Fatalf("%s has no node block", examplePlan)
	return 0
}
