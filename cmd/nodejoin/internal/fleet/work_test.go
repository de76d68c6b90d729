package fleet

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestResultIsWrittenLater: a pod whose API server is away for a moment writes its result all the same.
func TestResultIsWrittenLater(t *testing.T) {
	var mu sync.Mutex
	asked, wrote := 0, ""
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch asked++; {
		case asked == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`)
		case r.Method == http.MethodGet && r.URL.Path == "/api/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","resources":[`+
				`{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`)
		case r.Method == http.MethodPatch && r.URL.Path == "/api/v1/namespaces/fleets/configmaps/prod-3":
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			wrote = string(b)
			fmt.Fprint(w, wrote)
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\n"+
		"clusters: [{name: a, cluster: {server: %q, certificate-authority-data: %s}}]\n"+
		"users: [{name: a, user: {token: x}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n", s.URL,
		base64.StdEncoding.EncodeToString(ca))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NODEJOIN_FLEET_JOB", "prod")
	t.Setenv("NODEJOIN_FLEET_JOB_UID", "uid-1")
	x := &command{Options: Options{Namespace: "fleets"}, kubeconfig: file}
	r := Result{Shard: 3, Shards: 8, Command: "apply", Code: 4, Ended: time.Now(), Report: []byte(`{"hosts":[]}`)}
	if err := x.write(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"exit_code":"4"`, `"uid":"uid-1"`, `"report.json":"{\"hosts\":[]}"`} {
		if !strings.Contains(wrote, want) {
			t.Errorf("no %s in %s", want, wrote)
		}
	}
}
