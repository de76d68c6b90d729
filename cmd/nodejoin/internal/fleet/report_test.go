package fleet

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestGather: the results of shards become one report, with the exit code of one run.
func TestGather(t *testing.T) {
	at := time.Date(2026, 11, 26, 1, 2, 3, 0, time.UTC)
	long := strings.Repeat("x", mostPlain)
	results := []Result{
		{Shard: 2, Shards: 2, Command: "apply", Code: 4, Ended: at, Retried: 3, Stderr: "no answer\n", Metrics: "a 1\n",
			Report: []byte(`{"hosts":[{"node":"a","changed":[],"error":{"summary":"no answer"}}]}`)},
		{Shard: 1, Shards: 2, Command: "apply", Ended: at,
			Report: []byte(`{"hosts":[{"node":"b","changed":["x"],"note":"` + long + `"}]}`)},
	}
	for i, r := range results { // through their ConfigMaps
		m, err := r.object("fleets", "prod", "uid-1")
		if err != nil {
			t.Fatal(err)
		}
		if !owned(m.Object, "uid", "uid-1") || owned(m.Object, "uid", "uid-2") {
			t.Errorf("owners: %v", m.Object)
		}
		back, err := resultFrom(m.Object)
		if d := cmp.Diff(r, back); err != nil || d != "" {
			t.Fatalf("shard %d: %v\n%.500s", r.Shard, err, d)
		}
		results[i] = back
	}
	report, err := Gather(JobState{Name: "prod", Shards: 2, Complete: true}, results)
	if err != nil || report.ExitCode != 4 || len(report.Hosts) != 2 || !strings.Contains(string(report.Hosts[0]), `"a"`) {
		t.Errorf("%v %+v", err, report.Shards)
	}
	var out bytes.Buffer
	if err := report.Text(&out); err != nil {
		t.Fatal(err)
	}
	want := `SHARD  HOSTS  ENDED                 RESULT
1      1      2026-11-26 01:02:03Z  done
2      1      2026-11-26 01:02:03Z  a host or the API server did not answer (exit code 4), after 3 retries
a: no answer
The Job prod is complete: 2 of 2 shards have a result, 0 pods run. 2 hosts: 1 changed, 1 failed.
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
	twice := slices.Clone(results)
	twice[1].Report = twice[0].Report
	if _, err := Gather(JobState{}, twice); err == nil ||
		!strings.Contains(err.Error(), "is in the reports of two shards") {
		t.Error(err)
	}
	if r, err := Gather(JobState{Failed: "PodFailurePolicy: 3"}, nil); err != nil || r.ExitCode != codeFailed {
		t.Errorf("a Job that failed: %+v, %v", r, err)
	}
}

// TestResultOfShard: what people read about a shard, by its exit code and what the Job controller makes of it.
func TestResultOfShard(t *testing.T) {
	running := JobState{Retries: 3}
	failed := JobState{Retries: 3, Failed: "FailedIndexes: x", FailedShards: []int{2}}
	for _, c := range []struct {
		job  JobState
		s    ShardState
		want string
	}{
		{running, ShardState{Shard: 1}, "done"},
		{running, ShardState{Shard: 1, Retried: 2}, "done, after 2 retries"},
		{running, ShardState{Shard: 1, Code: 1}, "a step failed (exit code 1)"},
		{running, ShardState{Shard: 1, Code: 2}, "changes are pending (exit code 2)"},
		{running, ShardState{Shard: 2, Code: 7, Retried: 1},
			"another run held a host or the cluster (exit code 7); the shard starts again, 1 of 3 retries used"},
		{running, ShardState{Shard: 2, Code: 4},
			"a host or the API server did not answer (exit code 4); the shard starts again, 0 of 3 retries used"},
		{failed, ShardState{Shard: 2, Code: 4, Retried: 3},
			"a host or the API server did not answer (exit code 4), also after 3 retries"},
		{running, ShardState{Shard: 1, Code: 1, Command: "verify"}, "a test failed (exit code 1)"},
		{running, ShardState{Shard: 1, Code: 1, Command: "doctor"}, "doctor found errors (exit code 1)"},
		{failed, ShardState{Shard: 1, Code: 3}, "the plan or the call is not valid (exit code 3), which ends the Job"},
	} {
		if have := c.job.result(c.s); have != c.want {
			t.Errorf("%+v: %q, want %q", c.s, have, c.want)
		}
	}
	if d := cmp.Diff([]int{2, 4, 5, 6}, shardsOf("1,3-5")); d != "" || len(shardsOf(""))+len(shardsOf("0-99999")) > 0 {
		t.Errorf("(-want +have):\n%s", d)
	}
}

// TestTextOfCheck: the report of a Job sums up the newest check for drift; that of the check names what is different,
// and what a shard without hosts wrote to standard error.
func TestTextOfCheck(t *testing.T) {
	at := time.Date(2026, 11, 26, 1, 2, 3, 0, time.UTC)
	check, err := Gather(JobState{Name: "prod-drift-1", Shards: 2, Complete: true, Created: at}, []Result{
		{Shard: 1, Shards: 2, Command: "status", Code: 2, Ended: at, Report: []byte(`{"hosts":[` +
			`{"node":"a","state":"drifted"},{"node":"b","state":"in_sync"}]}`)},
		{Shard: 2, Shards: 2, Command: "status", Code: 4, Ended: at, Stderr: "Error: no answer\x1b[2J\n"}})
	if err != nil || check.ExitCode != 4 {
		t.Fatalf("%d, %v", check.ExitCode, err)
	}
	var out bytes.Buffer
	if err := check.Text(&out); err != nil {
		t.Fatal(err)
	}
	report := Report{Job: JobState{Name: "prod", Shards: 2}, Drift: &check}
	if err := report.Text(&out); err != nil {
		t.Fatal(err)
	}
	want := `SHARD  HOSTS  ENDED                 RESULT
1      2      2026-11-26 01:02:03Z  changes are pending (exit code 2)
2      0      2026-11-26 01:02:03Z  a host or the API server did not answer (exit code 4)
shard 2:
    Error: no answer\x1b[2J
a: drifted
The Job prod-drift-1 is complete: 2 of 2 shards have a result, 0 pods run. 2 hosts: 1 in sync, 1 not (a).
SHARD  HOSTS  ENDED  RESULT
The Job prod is running: 0 of 2 shards have a result, 0 pods run. 0 hosts: 0 changed, 0 failed.
The check for drift of 2026-11-26 01:02:03Z is complete: 2 hosts: 1 in sync, 1 not (a). --drift shows it.
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}

// TestTextOfCommands: the reports of verify, doctor and leave.
func TestTextOfCommands(t *testing.T) {
	const all = "The Job prod is running: 1 of 1 shards have a result, 0 pods run. 2 hosts: "
	for command, c := range map[string][2]string{
		"verify": {`{"flows":[{"node":"a","flow":"log","status":"pass"},{"node":"b","flow":"dns","status":"fail",` +
			`"detail":"no answer"},{"node":"b","flow":"log","status":"fail"}]}`,
			"b: dns: no answer\n" + all + "0 changed, 1 failed.\n"},
		"doctor": {`{"hosts":[{"node":"a","findings":[{"id":"x"}]},{"node":"b","findings":[]}]}`,
			"a: 1 findings\n" + all + "0 changed, 0 failed.\n"},
		"leave": {`{"hosts":[{"node":"a","left":true},{"node":"b","left":false,"error":{"summary":"no answer"}}]}`,
			"b: no answer\n" + all + "1 changed, 1 failed.\n"},
	} {
		r, err := Gather(JobState{Name: "prod", Shards: 1}, []Result{{Shard: 1, Shards: 1, Command: command, Code: 1,
			Report: []byte(c[0])}})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := r.Text(&out); err != nil || !strings.HasSuffix(out.String(), "\n"+c[1]) {
			t.Errorf("%s: %v\n%s", command, err, out.String())
		}
	}
}

// TestStateOfJob: what the Job controller writes.
func TestStateOfJob(t *testing.T) {
	job := map[string]any{"metadata": map[string]any{"name": "prod", "uid": "u"},
		"spec": map[string]any{"completions": 8.0, "suspend": true},
		"status": map[string]any{"active": 2.0, "succeeded": 5.0, "conditions": []any{
			map[string]any{"type": "Complete", "status": "False"},
			map[string]any{"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": "code 3"}}}}
	want := JobState{Name: "prod", UID: "u", Shards: 8, Active: 2, Succeeded: 5, Suspended: true,
		Failed: "PodFailurePolicy: code 3"}
	if d := cmp.Diff(want, stateOf(job)); d != "" || !stateOf(job).Ended() {
		t.Errorf("(-want +have):\n%s", d)
	}
}
