package artifact

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

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
