package runmetrics

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/node"
)

func run(began time.Time) Run {
	step := func(a steps.Action) engine.StepReport {
		return engine.StepReport{Spec: steps.Spec{ID: "a", Kind: "file"},
			Result: steps.Result{Change: steps.Change{Action: a}}}
	}
	host := func(name string, s ...engine.StepReport) engine.HostReport {
		return engine.HostReport{Node: plan.Node{Name: name}, Steps: s, LastUnknown: true}
	}
	lost := host("c")
	lost.Err = errors.New("no")
	old := host("a", step(""))
	old.Credentials = []steps.Credential{{What: "token", Path: `C:\etc\flannel.token`, Ends: began.Add(time.Hour)}}
	return Run{Command: "apply", Plan: "prod", Environment: "eu", Version: "1.0", Began: began, Code: 1,
		Report: &engine.Report{Hosts: []engine.HostReport{old, host("b", step(steps.ActionUpdate)), lost}},
		Summary: &engine.Summary{Hosts: []engine.HostSummary{{Node: "a"}, {Node: "b", Changed: []string{"a"}},
			{Node: "c", Err: errors.New("no")}}}}
}

// TestMetrics: the file has the metrics, promtool finds no problem in them, and a second run replaces them.
func TestMetrics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodejoin.prom")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now().Truncate(time.Second)
	if err := Write(file, run(began)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(string(b))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promtool: %v, %+v", err, problems)
	}
	const labels = `command="apply",environment="eu",plan="prod"`
	for _, want := range []string{
		"nodejoin_run_exit_code{" + labels + "} 1\n",
		`nodejoin_run_info{` + labels + `,version="1.0"} 1`,
		`nodejoin_run_hosts{` + labels + `,state="in_sync"} 1`,
		`nodejoin_run_hosts{` + labels + `,state="drifted"} 1`,
		`nodejoin_run_hosts{` + labels + `,state="failed"} 1`,
		`nodejoin_run_hosts{` + labels + `,state="not_joined"} 0`,
		`nodejoin_host_in_sync{command="apply",environment="eu",node="b",plan="prod"} 0`,
		`nodejoin_run_changes_found{action="update",` + labels + `} 1`,
		`nodejoin_apply_hosts{` + labels + `,result="failed"} 1`,
		`nodejoin_apply_hosts{` + labels + `,result="done"} 2`,
		`nodejoin_apply_steps_changed{` + labels + `} 1`,
		`path="C:\\etc\\flannel.token",plan="prod",what="token"} ` +
			strconv.FormatFloat(float64(began.Add(time.Hour).Unix()), 'g', -1, 64),
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in\n%s", want, b)
		}
	}
	if err := Write("", run(began)); err != nil {
		t.Error(err)
	}
	if err := Write(filepath.Join(file, "x"), run(began)); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}

// TestMerge: the metrics of the shards of a fleet are in one file, by shard, and promtool finds no problem in them.
func TestMerge(t *testing.T) {
	dir, shards := t.TempDir(), map[int]string{}
	for shard := range 2 {
		file := filepath.Join(dir, "one.prom")
		r := run(time.Now())
		r.Code = shard
		if err := Write(file, r); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shards[shard+1] = string(b)
	}
	file := filepath.Join(dir, "all.prom")
	if err := Merge(file, "tools", shards); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(string(b))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promtool: %v, %+v", err, problems)
	}
	for _, want := range []string{
		`nodejoin_run_exit_code{command="apply",environment="eu",plan="tools",shard="1"} 0`,
		`nodejoin_run_exit_code{command="apply",environment="eu",plan="tools",shard="2"} 1`} {
		if strings.Count(string(b), want+"\n") != 1 {
			t.Errorf("no %s in\n%s", want, b)
		}
	}
	if err := Merge(file, "tools", map[int]string{3: "{"}); err == nil || !strings.Contains(err.Error(), "of shard 3") {
		t.Error(err)
	}
}

// labelNames are those of a selector or sample, without its braces.
func labelNames(text string) (names []string) {
	for _, m := range regexp.MustCompile(`(\w+)(?:=~?|!=|!~)"`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// TestDashboard: the dashboard asks for metrics that runs or guards have, with labels that they have.
func TestDashboard(t *testing.T) {
	g, err := run(time.Now()).gather(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{} // labels of a metric
	for _, f := range families {
		known[f.GetName()] = []string{"instance"} // Prometheus sets it
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				known[f.GetName()] = append(known[f.GetName()], l.GetName())
			}
		}
	}
	guard := node.Metrics("a", steps.GuardState{Problems: []steps.GuardProblem{{ID: "x"}}}, false)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(guard, -1) {
		known[m[1]] = []string{"instance"}
	}
	for _, m := range regexp.MustCompile(`(?m)^(nodejoin_\w+)\{(.*?)\} `).FindAllStringSubmatch(guard, -1) {
		known[m[1]] = append(known[m[1]], labelNames(m[2])...)
	}
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "examples", "dashboard", "nodejoin.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	ids, used := map[int]bool{}, map[string]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			names := regexp.MustCompile(`nodejoin_\w+`).FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: %s asks for nothing", p.Title, target.Expr)
			}
			for _, n := range names {
				used[n] = true
				if known[n] == nil {
					t.Errorf("%s: there is no metric %s", p.Title, n)
				}
			}
			for _, m := range regexp.MustCompile(`(nodejoin_\w+)\{(.*?)\}`).FindAllStringSubmatch(target.Expr, -1) {
				for _, l := range labelNames(m[2]) {
					if !slices.Contains(known[m[1]], l) {
						t.Errorf("%s: %s has no label %s", p.Title, m[1], l)
					}
				}
			}
			for _, m := range regexp.MustCompile(`by \((\w+)\)|\{\{(\w+)\}\}`).FindAllStringSubmatch(
				target.Expr+" "+target.LegendFormat, -1) {
				if l := m[1] + m[2]; !slices.Contains(known[names[0]], l) {
					t.Errorf("%s: %s has no label %s", p.Title, names[0], l)
				}
			}
		}
	}
	for _, must := range []string{"nodejoin_run_hosts", "nodejoin_run_exit_code", "nodejoin_run_end_timestamp_seconds",
		"nodejoin_guard_in_order"} {
		if !used[must] {
			t.Errorf("no panel shows %s", must)
		}
	}
}
