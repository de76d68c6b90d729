package artifact

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/http/httpproxy"
	"pgregory.net/rapid"
)

// TestProxyOfAnAddress: the proxy is the one that the library of the Go project chooses.
func TestProxyOfAnAddress(t *testing.T) {
	hosts := []string{"example.com", "a.example.com", "b.a.example.com", "myexample.com", "EXAMPLE.com", "example.com.",
		"localhost", "127.0.0.1", "127.1.2.3", "[::1]", "10.0.0.7", "10.0.1.7", "[fd00::7]", "[::ffff:10.0.0.7]", "com"}
	no := []string{"example.com", ".example.com", "*.example.com", "a.example.com:8080", "*", "10.0.0.0/24", "10.0.0.7",
		"10.0.0.7:8080", "fd00::/8", "fd00::7", "[fd00::7]:8080", " com ", "", ".", "localhost:1", "10.0.0.0/99", "[fd00::7]"}
	proxy := []string{"", "http://proxy:3128", "proxy:3128", "proxy", "https://user:word@proxy", "socks5://proxy:1",
		"10.9.9.9:3128"}
	rapid.Check(t, func(t *rapid.T) {
		u := &url.URL{Scheme: rapid.SampledFrom([]string{"http", "https", "ftp"}).Draw(t, "scheme"),
			Host: rapid.SampledFrom(hosts).Draw(t, "host") + rapid.SampledFrom([]string{"", ":8080", ":80"}).Draw(t, "port")}
		p := proxies{http: rapid.SampledFrom(proxy).Draw(t, "http"), https: rapid.SampledFrom(proxy).Draw(t, "https"),
			no: strings.Join(rapid.SliceOfN(rapid.SampledFrom(no), 0, 3).Draw(t, "no"), ",")}
		have, err := p.of(u)
		want, wantErr := (&httpproxy.Config{HTTPProxy: p.http, HTTPSProxy: p.https, NoProxy: p.no}).ProxyFunc()(u)
		if (err == nil) != (wantErr == nil) || (have == nil) != (want == nil) || have != nil && have.String() != want.String() {
			t.Fatalf("%s with %+v: %v, %v; want %v, %v", u, p, have, err, want, wantErr)
		}
	})
}

// A download goes through the proxy that the machine has now, and what NO_PROXY
// names does not.
func TestFetchThroughTheMachinesProxy(t *testing.T) {
	asked := ""
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		if _, err := w.Write([]byte("by proxy")); err != nil {
			t.Error(err)
		}
	}))
	defer proxy.Close()
	env := map[string]string{}
	s := testStore(Options{MachineEnv: func(_ context.Context, name string) (string, error) {
		if v, ok := env[name]; ok {
			return v, nil
		}
		return "", fs.ErrNotExist
	}})
	const url = "http://mirror.invalid/kubelet.exe"
	if _, _, err := fetchAll(s, url); err == nil {
		t.Fatal("a name that does not exist was found")
	}
	env["HTTP_PROXY"] = proxy.URL // as a step of the same run sets it
	if b, _, err := fetchAll(s, url); err != nil || string(b) != "by proxy" || asked != url {
		t.Errorf("%q, %v; the proxy was asked for %q", b, err, asked)
	}
	env["NO_PROXY"], asked = ".svc,mirror.invalid", ""
	if _, _, err := fetchAll(s, url); err == nil || asked != "" {
		t.Errorf("what NO_PROXY names went through the proxy (%q, %v)", asked, err)
	}
}

// A machine whose environment cannot be read is not one without a proxy.
func TestFetchWithoutAnAnswerOnTheProxy(t *testing.T) {
	s := testStore(Options{MachineEnv: func(context.Context, string) (string, error) {
		return "", errors.New("no access")
	}})
	if _, _, err := fetchAll(s, "http://127.0.0.1:1/x"); err == nil || !strings.Contains(err.Error(), "no access") {
		t.Errorf("error %v", err)
	}
}
