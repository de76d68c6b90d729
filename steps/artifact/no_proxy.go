package artifact

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// proxies is what the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY say. It decides as golang.org/x/net/http/httpproxy,
// with which the tests compare it, but knows no international names in NO_PROXY: their tables would add 100 kB to what
// is sent to a machine.
type proxies struct{ http, https, no string }

// of is the proxy for a URL; nil = none.
func (p proxies) of(u *url.URL) (*url.URL, error) {
	proxy := map[string]string{"http": p.http, "https": p.https}[u.Scheme]
	if proxy == "" || p.exempt(u) {
		return nil, nil //nolint:nilnil // as net/http asks for it
	}
	at, err := url.Parse(proxy)
	if err != nil || at.Scheme == "" || at.Host == "" { // HOST:PORT alone
		if with, err := url.Parse("http://" + proxy); err == nil {
			return with, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("invalid proxy address %q: %w", proxy, err)
	}
	return at, nil
}

// exempt reports whether NO_PROXY names a URL, or it is of this machine.
func (p proxies) exempt(u *url.URL) bool {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	ip = ip.Unmap()
	if host == "localhost" || isIP && ip.IsLoopback() {
		return true
	}
	for entry := range strings.SplitSeq(p.no, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if entry == "*" {
			return true
		}
		if within, err := netip.ParsePrefix(entry); err == nil {
			if isIP && within.Masked().Contains(ip) {
				return true
			}
			continue
		}
		if name, only, err := net.SplitHostPort(entry); err == nil {
			if only != port {
				continue
			}
			entry = name
		}
		if named, err := netip.ParseAddr(entry); err == nil {
			if isIP && named.Unmap() == ip {
				return true
			}
			continue
		}
		if strings.HasPrefix(entry, "*.") {
			entry = entry[1:]
		}
		within, whole := strings.TrimPrefix(entry, "."), !strings.HasPrefix(entry, ".")
		if entry != "" && !isIP && (strings.HasSuffix(host, "."+within) || whole && host == within) {
			return true
		}
	}
	return false
}
