package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
)

// registry is one repository with an artifact, as distribution-spec says.
type registry struct {
	*httptest.Server
	text   []byte
	sum    string
	token  string // "" = everybody may read
	user   string // "" = wants no login, but perhaps a token; else user:password, at the registry or for its tokens
	basic  bool   // wants the login itself
	layers int
	asked  []string
}

func newRegistry(t *testing.T) *registry {
	text := bytes.Repeat([]byte("artifact "), 10_000)
	sum := sha256.Sum256(text)
	r := &registry{text: text, sum: hex.EncodeToString(sum[:]), layers: 1}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.asked = append(r.asked, q.Method+" "+q.URL.Path+" "+q.Header.Get("Range"))
	name, password, _ := q.BasicAuth()
	known := r.user == "" && !r.basic || r.user != "" && r.user == name+":"+password
	switch {
	case q.URL.Path == "/token" && !known:
		w.WriteHeader(http.StatusUnauthorized)
	case q.URL.Path == "/token" && q.URL.Query().Get("scope") == "repository:mirror/nodes:pull" &&
		q.URL.Query().Get("service") == "the registry":
		fmt.Fprintf(w, `{"token": %q}`, r.token)
	case r.basic && !known:
		w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
		w.WriteHeader(http.StatusUnauthorized)
	case r.token != "" && q.Header.Get("Authorization") != "Bearer "+r.token:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="the registry"`, r.URL))
		w.WriteHeader(http.StatusUnauthorized)
	case q.URL.Path == "/v2/mirror/nodes/manifests/flanneld.exe":
		fmt.Fprintf(w, `{"layers": [%s]}`, strings.TrimSuffix(strings.Repeat(`{"digest": "sha256:`+r.sum+`"},`, r.layers),
			","))
	case q.URL.Path == "/v2/mirror/nodes/blobs/sha256:"+r.sum:
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(r.text))
	default:
		http.NotFound(w, q)
	}
}

func (r *registry) source() steps.Source {
	return steps.Source{URL: "oci://" + strings.TrimPrefix(r.URL, "http://") + "/mirror/nodes:flanneld.exe"}
}

// TestRegistry: an artifact is fetched by its digest, or without one by its tag; with a token where the registry
// wants one; and from where it was cut.
func TestRegistry(t *testing.T) {
	r := newRegistry(t)
	s := New(Options{Direct: true})
	for _, token := range []string{"", "secret"} {
		for _, digest := range []string{"", r.sum} {
			r.token = token
			src := r.source()
			src.SHA256 = digest
			body, size, err := s.Open(t.Context(), src)
			if err != nil {
				t.Fatal(err)
			}
			have, err := io.ReadAll(body)
			if err != nil || !bytes.Equal(have, r.text) || size != int64(len(r.text)) || body.Close() != nil {
				t.Errorf("%d of %d bytes, %v", len(have), size, err)
			}
		}
	}
	src := r.source()
	src.SHA256 = r.sum
	body, err := s.OpenAt(t.Context(), src, 1000, int64(len(r.text)))
	if err != nil {
		t.Fatal(err)
	}
	if have, err := io.ReadAll(body); err != nil || !bytes.Equal(have, r.text[1000:]) || body.Close() != nil {
		t.Errorf("%d bytes, %v", len(have), err)
	}
	if last := r.asked[len(r.asked)-1]; last != "GET /v2/mirror/nodes/blobs/sha256:"+r.sum+" bytes=1000-" {
		t.Error(last)
	}
}

// TestRegistryRefuses: what a registry does not have, what it does not give to everybody, and what is not an artifact
// have an error that says so.
func TestRegistryRefuses(t *testing.T) {
	r := newRegistry(t)
	s := New(Options{Direct: true})
	for _, c := range []struct {
		change func()
		src    steps.Source
		want   string
	}{
		{func() { r.basic = true }, r.source(), "wants a login"},
		{func() { r.layers = 2 }, r.source(), "is not an artifact of one file"},
		{func() {}, steps.Source{URL: strings.Replace(r.source().URL, "flanneld", "other", 1)}, "404"},
		{func() {}, steps.Source{URL: r.source().URL, SHA256: strings.Repeat("ab", 32)}, "404"},
		{func() {}, steps.Source{URL: "oci://registry.example/Upper:tag"}, "is not oci://HOST/REPOSITORY:TAG"},
		{func() {}, steps.Source{URL: "oci://user@registry.example/x:tag"}, "is not oci://HOST/REPOSITORY:TAG"},
		{func() {}, steps.Source{URL: "oci://registry.example/x"}, "is not oci://HOST/REPOSITORY:TAG"},
	} {
		r.basic, r.layers = false, 1
		c.change()
		_, _, err := s.Open(t.Context(), c.src)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.src.URL, err, c.want)
		}
	}
}

// TestRegistryLogin: the login of the plan is used at its server alone: at a registry that wants it, for a token,
// and at a web server. Nothing that is said has the password.
func TestRegistryLogin(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if name, password, _ := q.BasicAuth(); name != "node" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "artifact ")
	}))
	t.Cleanup(web.Close)
	basic, tokens := newRegistry(t), newRegistry(t)
	basic.basic, basic.user = true, "node:s3cret"
	tokens.token, tokens.user = "for an hour", "node:s3cret"
	for name, c := range map[string]struct {
		src    steps.Source
		server string
	}{
		"web":      {steps.Source{URL: web.URL + "/flanneld.exe"}, web.URL},
		"registry": {basic.source(), basic.URL},
		"tokens":   {tokens.source(), tokens.URL},
	} {
		at := strings.TrimPrefix(c.server, "http://")
		for user, want := range map[string]string{
			"node": "",
			"":     `wants a login, which a login block of the plan gives: login "` + at + `"`,
			"bob":  `refuses the login of "bob", which the login block of the plan for ` + at,
		} {
			logins := []steps.Login{{Server: "other.example", Username: "node", Password: "s3cret"}}
			if user != "" {
				logins = append(logins, steps.Login{Server: at, Username: user, Password: "s3cret"})
			}
			s := New(Options{Direct: true})
			s.fetch.pace.tries = 1
			body, _, err := s.Open(steps.WithLogins(t.Context(), logins), c.src)
			if err == nil {
				var have []byte
				if have, err = io.ReadAll(body); !bytes.HasPrefix(have, []byte("artifact ")) {
					t.Errorf("%s: %q", name, have)
				}
				_ = body.Close()
			}
			switch {
			case want == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")):
				t.Errorf("%s, user %q: %v, want %q", name, user, err, want)
			}
		}
	}
	for _, l := range []steps.Login{{Username: "node"}, {Token: "s3cret"}} {
		l.Server = "mirror.example"
		_, _, err := New(Options{}).Open(steps.WithLogins(t.Context(), []steps.Login{l}),
			steps.Source{URL: "http://mirror.example/x"})
		if err == nil || !strings.Contains(err.Error(), "use https") {
			t.Errorf("without TLS: %v", err)
		}
	}
}

// TestTokenLogin: a token of the plan goes to its server as it is, and to no other. Nothing that is said has it.
func TestTokenLogin(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "artifact ")
	}))
	t.Cleanup(web.Close)
	images := newRegistry(t)
	images.token = "s3cret"
	images.user = "nobody:nothing" // who gets a token
	for server, src := range map[string]steps.Source{web.URL: {URL: web.URL + "/flanneld.exe"},
		images.URL: images.source()} {
		at := strings.TrimPrefix(server, "http://")
		for _, c := range []struct{ server, token, want string }{
			{at, "s3cret", ""},
			{at, "other-s3cret", "refuses the token, which the login block of the plan for " + at},
			{"other.example", "s3cret", "wants a login, which a login block of the plan gives"},
		} {
			s := New(Options{Direct: true})
			s.fetch.pace.tries = 1
			ctx := steps.WithLogins(t.Context(), []steps.Login{{Server: c.server, Token: c.token}})
			body, _, err := s.Open(ctx, src)
			if err == nil {
				var have []byte
				if have, err = io.ReadAll(body); !bytes.HasPrefix(have, []byte("artifact ")) {
					t.Errorf("%s: %q", src.URL, have)
				}
				_ = body.Close()
			}
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", src.URL, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "s3cret")):
				t.Errorf("%s with %+v: %v", src.URL, c, err)
			}
		}
	}
}
