package node

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
)

// TestMetrics: promtool finds no problem in the metrics, which are served on loopback and written to the textfile.
func TestMetrics(t *testing.T) {
	since := time.Unix(1700000000, 0)
	s := steps.GuardState{At: since, Checks: 7, Fixes: 2, Failures: 1, Problems: []steps.GuardProblem{
		{ID: "flanneld", Text: "it is stopped", Since: since}, {ID: `a "b\` + "\n", Since: since}}}
	text := Metrics("win-1", s, true)
	for _, text := range []string{text, Metrics("win-1", steps.GuardState{}, false)} {
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v of\n%s", err, problems, text)
		}
	}
	for _, want := range []string{`nodejoin_guard_in_order{node="win-1"} 0`, `nodejoin_guard_paused{node="win-1"} 1`,
		`nodejoin_guard_checks_total{node="win-1"} 7`,
		`nodejoin_guard_problem_since_timestamp_seconds{node="win-1",id="flanneld"} 1.7e+09`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	m := newMachine(t)
	out := &metrics{say: func(line string) { t.Error(line) }, host: m.Host}
	defer out.close()
	plan := steps.BootPlan{Node: "win-1", Guard: &steps.Guard{Listen: "127.0.0.1:39810",
		Textfile: `C:\metrics\nodejoin.prom`}}
	out.publish(t.Context(), plan, s, true)
	if have, _, err := host.ReadTail(t.Context(), m, plan.Guard.Textfile, 1<<20); err != nil || string(have) != text {
		t.Errorf("%s, %v", have, err)
	}
	for path, want := range map[string]int{"/metrics": 200, "/": 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:39810"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		if err != nil || reply.StatusCode != want || want == 200 && string(body) != text {
			t.Errorf("%s: %d, %v\n%s", path, reply.StatusCode, err, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestMetricsInAForeignFolder: nothing is written with all rights into a folder that others own or can change.
func TestMetricsInAForeignFolder(t *testing.T) {
	for _, c := range []struct{ os, folder, path string }{
		{"windows", `C:\app`, `C:\app\metrics\nodejoin.prom`},
		{"windows", `C:\metrics`, `C:\metrics\nodejoin.prom`},
		{"windows", `C:\metrics`, `C:\metrics\new\nodejoin.prom`},
		{"linux", "/srv/metrics", "/srv/metrics/nodejoin.prom"},
	} {
		dir := t.TempDir()
		h, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir, OS: c.os})
		if err != nil {
			t.Fatal(err)
		}
		made := c.folder
		if strings.Contains(c.path, `\metrics\nodejoin`) {
			made = host.Dir(c.os, c.path) // its own folder is ours, that above is not
		}
		if err := h.Mkdir(t.Context(), made, host.AccessDefault); err != nil {
			t.Fatal(err)
		}
		quirks, err := json.Marshal(sandbox.Quirks{Open: []string{c.folder}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".sandbox", "quirks.json"), quirks, 0o600); err != nil {
			t.Fatal(err)
		}
		said := ""
		out := &metrics{say: func(line string) { said += line }, host: h}
		out.publish(t.Context(), steps.BootPlan{Node: "n", Guard: &steps.Guard{Textfile: c.path}}, steps.GuardState{}, false)
		there, err := host.Exists(t.Context(), h, c.path)
		if err != nil || there || !strings.Contains(said, c.folder+": "+host.ErrForeign.Error()) {
			t.Errorf("%s: written: %v, %v; said %q", c.path, there, err, said)
		}
	}
}
