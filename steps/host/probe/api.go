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

// apiLimit bounds one request to an API server that is far away or absent.
const apiLimit = 5 * time.Second

// API requests the version of an API server and accepts any response, including a rejection. It uses no
// proxy, since no program of a node reaches its API server through a proxy unless told to. The certificate is
// not verified and nothing secret is sent: the response only shows reachability, the clock and the
// certificate. Even if the response is forged, the kubelet verifies the server by the cluster's CA.
func API(ctx context.Context, address string) (host.APIAnswer, error) {
	u, err := url.Parse(address)
	if err != nil {
		return host.APIAnswer{}, err
	}
	if u.Scheme != "https" || u.Host == "" {
		return host.APIAnswer{}, fmt.Errorf("%w: %q is not an https address", fs.ErrInvalid, address)
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
