package artifact

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

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
		c := httpproxy.Config{}
		for _, v := range []struct {
			name string
			to   *string
		}{{"HTTP_PROXY", &c.HTTPProxy}, {"HTTPS_PROXY", &c.HTTPSProxy}, {"NO_PROXY", &c.NoProxy}} {
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
		if c.HTTPProxy == "" && c.HTTPSProxy == "" {
			return http.ProxyFromEnvironment(req)
		}
		return c.ProxyFunc()(req.URL)
	}
}
