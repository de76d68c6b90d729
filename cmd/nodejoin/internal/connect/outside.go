package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"nodejoin/plan"
	"nodejoin/steps/host/sandbox"
)

// Outside asks ports of nodes from this computer: over the network, or in a simulated cluster.
func Outside(p *plan.Compiled) func(context.Context, string) error {
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
