package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"time"

	"nodejoin/steps/host"
)

// apiLimit bounds one question to an API server that is far away or not there.
const apiLimit = 5 * time.Second

// API asks an API server for its version and takes any answer, a refusal too. No
// proxy is used, as none of a node's programs goes to its API server through one
// that it was not told of. The certificate is not verified and nothing secret is
// sent: the answer counts for reachability and for the clock, and says which
// certificate there was to judge. A kubelet that is lied to here still verifies the
// server by the cluster's CA.
func API(ctx context.Context, address string) (host.APIAnswer, error) {
	u, err := url.Parse(address)
	if err != nil {
		return host.APIAnswer{}, err
	}
	if u.Scheme != "https" || u.Host == "" {
		return host.APIAnswer{}, fmt.Errorf("%w: %q is no https address", fs.ErrInvalid, address)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, apiLimit, fmt.Errorf("no answer in %s", apiLimit))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("version").String(), nil)
	if err != nil {
		return host.APIAnswer{}, err
	}
	insecure := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: insecure}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	now := time.Now().UTC()
	if err != nil {
		var dns *net.DNSError
		switch {
		case errors.As(err, &dns) && dns.IsNotFound:
			return host.APIAnswer{}, fmt.Errorf("%w: %s", host.ErrNameUnknown, dns.Name)
		case ctx.Err() != nil:
			return host.APIAnswer{}, context.Cause(ctx)
		}
		return host.APIAnswer{}, err
	}
	answer := host.APIAnswer{Clock: now}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		answer.Date = date.UTC()
	}
	if resp.TLS != nil {
		for _, c := range resp.TLS.PeerCertificates {
			answer.Certificates = append(answer.Certificates, c.Raw)
		}
	}
	return answer, resp.Body.Close()
}
