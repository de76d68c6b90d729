package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"nodejoin/cmd/nodejoin/internal/runlog"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/verify"
)

// outside asks ports of nodes from this computer: over the network, or in a simulated cluster.
func outside(p *plan.Compiled) func(context.Context, string) error {
	if p.Cluster.Sandbox != "" {
		return func(ctx context.Context, url string) error {
			k, err := sandbox.OpenCluster(ctx, sandbox.ClusterConfig{Dir: p.Cluster.Sandbox, PodCIDR: p.Cluster.PodCIDR})
			if err != nil {
				return err
			}
			return k.Outside(ctx, url)
		}
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	client := &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	return func(ctx context.Context, url string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return errors.Unwrap(err) // without the URL, which is shown beside it
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
}

// verifyEvents shows the progress of verify as events on the display.
type verifyEvents struct {
	mu      sync.Mutex
	display ui.Display
	log     *runlog.Log
}

func (t *verifyEvents) emit(e event.Event) {
	t.log.Emit(e)
	t.display.Emit(e)
}

// Waits shows what a test waits for.
func (t *verifyEvents) Waits(node, flow, observed string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.emit(event.StepProgress{Host: node, Step: flow, Note: observed})
}

// Done shows the result of a test.
func (t *verifyEvents) Done(r verify.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch r.Status {
	case verify.Pass:
		t.emit(event.StepDone{Host: r.Node, Step: r.Flow, Result: "unchanged", Action: "wait", Duration: r.Took})
	case verify.Fail:
		t.emit(steps.Done(event.StepDone{Host: r.Node, Step: r.Flow, Duration: r.Took},
			&steps.Error{Code: steps.CodeFailed, Summary: r.Detail}))
	}
}
