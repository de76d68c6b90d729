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

	"github.com/spf13/cobra"
)

// kubeconfig names an API server of the test, which ends with it.
func kubeconfig(t *testing.T, s *httptest.Server) (file string) {
	t.Helper()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	file = filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\n"+
		"clusters: [{name: a, cluster: {server: %q, certificate-authority-data: %s}}]\n"+
		"users: [{name: a, user: {token: x}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n", s.URL,
		base64.StdEncoding.EncodeToString(ca))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFormerJobIsGone: the objects of a fleet are applied when the former Job and its pods are gone: a pod that still
// runs would write the result of its shard.
func TestFormerJobIsGone(t *testing.T) {
	const job = "/apis/batch/v1/namespaces/fleets/jobs/prod"
	var mu sync.Mutex
	jobs, pods, deleted := 2, 2, false
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch what := r.Method + " " + r.URL.Path; {
		case what == "GET /apis/batch/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","resources":[{"name":"jobs","kind":"Job","namespaced":true}]}`)
		case what == "GET /api/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`)
		case what == "DELETE "+job:
			deleted = true
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		case what == "GET "+job && jobs > 0:
			jobs--
			fmt.Fprint(w, `{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"prod"}}`)
		case what == "GET "+job:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,`+
				`"details":{"name":"prod","kind":"jobs","group":"batch"}}`)
		case what == "GET /api/v1/namespaces/fleets/pods/":
			if q := r.URL.Query().Get("labelSelector"); q != "batch.kubernetes.io/job-name=prod" {
				t.Errorf("pods with the labels %q", q)
			}
			phase := "Failed" // it stays until the garbage collector comes
			if pods--; pods >= 0 {
				phase = "Running"
			}
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"prod-0-abcde"},`+
				`"status":{"phase":%q}}]}`, phase)
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	x := &command{Options: Options{Name: "prod", Namespace: "fleets"}, kubeconfig: kubeconfig(t, s)}
	api, err := x.open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.removeFormer(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	if !deleted || jobs != 0 || pods >= 0 {
		t.Errorf("deleted: %v, %d answers with the Job and %d with a pod are left", deleted, jobs, pods)
	}
}

// TestFleetOfAnotherPlan: a Job of another plan, or of another environment, is not replaced, also when it has ended.
func TestFleetOfAnotherPlan(t *testing.T) {
	has := ""
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/apis/batch/v1" {
			fmt.Fprint(w, `{"kind":"APIResourceList","resources":[{"name":"jobs","kind":"Job","namespaced":true}]}`)
			return
		}
		fmt.Fprintf(w, `{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"prod"%s},`+
			`"status":{"conditions":[{"type":"Complete","status":"True"}]}}`, has)
	}))
	x := &command{Options: Options{Name: "prod", Namespace: "fleets"}, kubeconfig: kubeconfig(t, s)}
	api, err := x.open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ of, plan, want string }{
		{"", "prod@lab", ""}, {"prod@lab", "prod@lab", ""}, {"lab", "lab", ""},
		{"staging@lab", "prod@lab", "another plan or environment (staging@lab)"},
		{"lab", "prod@lab", "another plan or environment (lab)"}, {"prod@lab", "", "another plan or environment"},
	} {
		if has = ""; c.of != "" {
			has = fmt.Sprintf(`,"annotations":{"nodejoin.dev/plan":%q}`, c.of)
		}
		err := x.idle(t.Context(), api, c.plan)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("a Job of %q, the plan %q: %v", c.of, c.plan, err)
		}
	}
}

// TestNameOfEnvironment: the fleets of two environments have two names, and --name counts where it is given.
func TestNameOfEnvironment(t *testing.T) {
	for args, want := range map[string]string{"": "nodejoin", "--env=prod": "nodejoin-prod",
		"--env=prod --name=tools": "tools"} {
		for _, make := range []func(*command) *cobra.Command{newRender, newApply, newStatus, newLogs, newStop} {
			x := &command{App: App{PlanFlags: func(c *cobra.Command) { c.Flags().String("env", "", "") }}}
			c := make(x)
			c.RunE = func(*cobra.Command, []string) error { return nil }
			c.SetArgs(strings.Fields(args))
			if err := c.Execute(); err != nil || x.Name != want {
				t.Errorf("%s %s: %q, %v, want %q", c.Name(), args, x.Name, err, want)
			}
		}
	}
}

// TestResultIsWrittenLater: a pod whose API server is away for a moment writes its result all the same.
func TestResultIsWrittenLater(t *testing.T) {
	var mu sync.Mutex
	asked, wrote, events := 0, "", []string{}
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
				`{"name":"configmaps","kind":"ConfigMap","namespaced":true},{"name":"events","kind":"Event","namespaced":true}]}`)
		case r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/fleets/events/prod-3."):
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			events = append(events, string(b))
			fmt.Fprint(w, string(b))
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
	file := kubeconfig(t, s)
	t.Setenv("NODEJOIN_FLEET_JOB", "prod")
	t.Setenv("NODEJOIN_FLEET_JOB_UID", "uid-1")
	x := &command{Options: Options{Namespace: "fleets"}, kubeconfig: file, App: App{Err: t.Output()}}
	r := Result{Shard: 3, Shards: 8, Command: "apply", Code: 4, Ended: time.Now(),
		Report: []byte(`{"hosts":[{"node":"a","error":{"summary":"no answer"}},{"node":"b","changed":["x"]},` +
			`{"node":"c","held":"the rollout stopped"}]}`)}
	if err := x.write(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"exit_code":"4"`, `"uid":"uid-1"`, `"report.json":"{\"hosts\":[`} {
		if !strings.Contains(wrote, want) {
			t.Errorf("no %s in %s", want, wrote)
		}
	}
	for i, want := range []string{`"message":"a: no answer","metadata"`, `"message":"c: the rollout stopped","metadata"`,
		`"message":"shard 3 of 8, apply: a host or the API server did not answer (exit code 4). 3 hosts, 2 not as pl`} {
		if len(events) != 3 || !strings.Contains(events[i], want) || !strings.Contains(events[i], `"uid":"uid-1"`) {
			t.Errorf("no %s in event %d of %d: %s", want, i, len(events), events)
		}
	}
	many := Result{Shard: 1, Shards: 1, Report: []byte(`{"hosts":[` +
		strings.TrimSuffix(strings.Repeat(`{"node":"a","state":"drifted"},`, mostEvents+2), ",") + `]}`)}
	if n := many.notes(); len(n) != mostEvents+1 || n[0].reason != "NodeDrifted" || n[mostEvents].reason != "ShardDone" ||
		!strings.HasSuffix(n[mostEvents].message, "22 not as planned, 2 of them without an event") {
		t.Errorf("%d events: %+v", len(n), n)
	}
}
