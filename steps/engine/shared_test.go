package engine_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"nodejoin/steps/kube"
)

// asked counts what a run asks of the accounts and objects that its nodes share.
type asked struct {
	mu     sync.Mutex
	states map[string]int
}

func (a *asked) count(want any) {
	if a == nil {
		return
	}
	text, err := json.Marshal(want)
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.states[string(text)]++
}

func (k killableCluster) ServiceAccount(ctx context.Context, want kube.ServiceAccount) (kube.ServiceAccountState,
	error) {
	k.w.asked.count(want)
	return k.API.ServiceAccount(ctx, want)
}

// TestSharedOnce: what several nodes share is checked once for all of them, and made by one of them.
func TestSharedOnce(t *testing.T) {
	w := newWorld(t)
	w.parallel = 2
	for _, run := range []struct {
		name string
		most int // the check; then before and after it is made
	}{{"join", 3}, {"no changes", 2}} {
		w.asked = &asked{states: map[string]int{}}
		if sum := w.mustConverge(); len(sum.Hosts) < 2 {
			t.Fatalf("%d hosts", len(sum.Hosts))
		}
		if len(w.asked.states) == 0 {
			t.Errorf("%s: no account was checked", run.name)
		}
		for want, n := range w.asked.states {
			if n > run.most {
				t.Errorf("%s: asked %d times for %s", run.name, n, want)
			}
		}
	}
	w.mustBeQuiet()
}

// TestOwnObjects: a manifest that names its node is made for each node.
func TestOwnObjects(t *testing.T) {
	w := newWorld(t)
	w.add(`step "manifest" "own" {
  content = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x-${self.hostname}, namespace: default}\n"
}`)
	w.mustConverge()
	w.mustBeQuiet()
}
