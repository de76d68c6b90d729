package artifact

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"nodejoin/steps/host"
)

// proxyOf returns the proxy of a request by the machine's environment as it is now: a step of the same run
// may just have set it, which the environment of this process does not show. A machine without these
// variables uses the proxy of the process.
func proxyOf(machine func(ctx context.Context, name string) (string, error)) func(*http.Request) (*url.URL, error) {
	if machine == nil {
		return http.ProxyFromEnvironment
	}
	return func(req *http.Request) (*url.URL, error) {
		var p proxies
		for _, v := range []struct {
			name string
			to   *string
		}{{"HTTP_PROXY", &p.http}, {"HTTPS_PROXY", &p.https}, {"NO_PROXY", &p.no}} {
			for _, name := range []string{v.name, strings.ToLower(v.name)} {
				value, err := machine(req.Context(), name)
				if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, host.ErrUnsupported) {
					return nil, err
				}
				if err == nil && *v.to == "" {
					*v.to = value
				}
			}
		}
		if p.http == "" && p.https == "" {
			return http.ProxyFromEnvironment(req)
		}
		return p.of(req.URL)
	}
}
