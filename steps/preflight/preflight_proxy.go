package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// proxyPorts are the default ports of proxy URLs.
var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// ProxyAddress returns HOST:PORT of a proxy as it is written in environment variables: a URL, or HOST:PORT
// alone (golang.org/x/net/http/httpproxy).
func ProxyAddress(text string) (address string, ok bool) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "", false
	}
	if u.Port() != "" {
		return u.Host, true
	}
	port, ok := proxyPorts[u.Scheme]
	return strings.TrimSuffix(u.Host, ":") + ":" + port, ok
}

// proxyUnreachable connects to the plan's proxies and, unless the plan sets the proxy, to those in the
// machine's environment.
func proxyUnreachable(ctx context.Context, s *pass) ([]observed, error) {
	out, err := s.askProxies(ctx, s.q.Proxies, "the plan",
		"correct the proxy block of the plan, or open the connection from the machine to the proxy")
	if s.q.Proxy {
		return out, err
	}
	list, err1 := s.environmentProxies(ctx)
	more, err2 := s.askProxies(ctx, list, "the machine's environment",
		"correct or remove HTTP_PROXY and HTTPS_PROXY of the machine, or open the connection from the machine to the proxy")
	return append(out, more...), errors.Join(err, err1, err2)
}

func (s *pass) askProxies(ctx context.Context, list []string, of, remedy string) (out []observed, unknown error) {
	for _, address := range list {
		err := s.r.ProbeTCP(ctx, address)
		switch {
		case errors.Is(err, host.ErrNameUnknown):
			out = append(out, observed{fmt.Sprintf("the machine cannot resolve the proxy %s of %s", address, of), remedy})
		case errors.Is(err, host.ErrNoAnswer):
			out = append(out,
				observed{fmt.Sprintf("the proxy %s of %s does not answer the machine: %v", address, of, reason(err)), remedy})
		case err != nil:
			unknown = errors.Join(unknown, err)
		}
	}
	return out, unknown
}

// environmentProxies are the addresses of the proxies in the machine's environment. Errors show no value,
// which may have a password.
func (s *pass) environmentProxies(ctx context.Context) (list []string, err error) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		text, e := host.LookupEnv(ctx, s.r, name)
		if e != nil || text == "" {
			err = errors.Join(err, e)
			continue
		}
		address, ok := ProxyAddress(text)
		if !ok {
			err = errors.Join(err, fmt.Errorf("%s of the machine's environment is not the address of a proxy", name))
		} else if !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	return list, err
}
