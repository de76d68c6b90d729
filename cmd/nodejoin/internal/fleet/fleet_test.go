package fleet

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/plan"
	"nodejoin/plan/source"
	"nodejoin/steps"
)

var update = flag.Bool("update", false, "write testdata/fleet.yaml")

const planText = `cluster "prod" {
  kubernetes = "1.36.3"
  api_server = "https://10.0.0.10:6443"
  kubeconfig = "admin.conf"
  pod_cidr   = "10.244.0.0/16"
  join "bootstrap_token" {}
}
runtime "containerd" { version = "2.2.1" }
network "flannel" { version = "0.28.9" }
artifact "kubernetes_node" { sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }
artifact "containerd" { sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }
artifact "cni_plugins" {
  version = "1.9.1"
  sha256  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
}
artifact "flannel_cni" {
  version = "1.9.1-flannel1"
  sha256  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
}
artifact "flanneld" { sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" }
node "win" {
  count = 3
  os    = "windows"
  connection "ssh" {
    host = "win-${count.index}.example"
    port = 2222
  }
}
step "manifest" "settings" {
  content = file("files/settings.yaml")
}
`

const settings = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {"quoted": "a \"b\" <c>"}
`

// files of a plan's folder; those that it does not read are in no object.
var files = map[string]string{"a.join.hcl": planText, "files/settings.yaml": settings, "prod.auto.joinvars": "",
	"notes.txt": "not a part of the plan"}

var options = Options{Name: "prod", Namespace: "fleets", Image: "registry.example/nodejoin@sha256:" +
	strings.Repeat("a", 64), Shards: 8, AtOnce: 2, Retries: 3, Drift: "0 * * * *",
	KnownHosts: "win-0.example ssh-ed25519 AAAA\n", Home: "/home/me"}

func load(t *testing.T, files map[string]string) (*plan.Compiled, string, []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var read []string
	p, diags := plan.Load(dir, plan.Options{Version: "0.1.0", Unvalued: true,
		Module: func(source.Remote) (string, error) { return filepath.Join(dir, "unpacked"), nil },
		Note:   func(file string) { read = append(read, file) },
		Agent: func(string, string, string) (steps.Source, error) {
			return steps.Source{File: "agent", SHA256: strings.Repeat("0", 64)}, nil
		}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	c, diags := p.Compile()
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return c, dir, read
}

// TestRender: the objects of a fleet are those of testdata/fleet.yaml, which the tests of steps/cluster send to an API
// server.
func TestRender(t *testing.T) {
	c, dir, read := load(t, files)
	f, err := New(options, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	var have, again bytes.Buffer
	if err := f.Render(&have); err != nil {
		t.Fatal(err)
	}
	c, dir, read = load(t, files)
	slices.Reverse(read)
	if f, err = New(options, c, dir, read); err == nil {
		err = f.Render(&again)
	}
	if d := cmp.Diff(have.String(), again.String()); err != nil || d != "" {
		t.Errorf("the same plan elsewhere: %v\n%s", err, d)
	}
	golden := filepath.Join("testdata", "fleet.yaml")
	if *update {
		if err := os.WriteFile(golden, have.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if d := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), have.String()); err != nil || d != "" {
		t.Errorf("%v (-want +have), -update writes it:\n%s", err, d)
	}
	objects, err := f.Objects()
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{}
	for _, o := range objects {
		kinds = append(kinds, o.Kind)
	}
	if kinds[0] != "Namespace" || !slices.Contains(kinds, "Job") || !slices.Contains(kinds, "CronJob") {
		t.Errorf("kinds: %v", kinds)
	}
	if strings.Contains(have.String(), "not a part of the plan") {
		t.Error("a file that the plan does not read is in it")
	}
}

// TestOddText: names, paths and texts that YAML reads in another way come through as they are.
func TestOddText(t *testing.T) {
	const odd = "a: \"b\" # c\n\u0085\u007f\u009b\u2028\ufeff\uffff\ttrue<&>\n"
	values := "x\nkind: Secret\n.auto.joinvars"
	if runtime.GOOS == "windows" { // file names have no line breaks there
		values = "x #.auto.joinvars"
	}
	plan := strings.Replace(planText, `"admin.conf"`, `"on: [.conf"`, 1)
	c, dir, read := load(t, map[string]string{"a.join.hcl": plan + "# \u0085\u007f\u009b\u2028\n",
		"files/settings.yaml": settings, values: ""})
	o := options
	o.Name, o.Namespace, o.Image, o.KnownHosts = "on", "true", "1", odd
	f, err := New(o, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := f.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range objects {
		switch m.Kind + " " + m.Name {
		case "ConfigMap on-plan":
			for _, f := range f.Files {
				if have := field(m.Object, "data")[f.Key]; have != string(f.Data) {
					t.Errorf("%s: %q", f.Path, have)
				}
			}
		case "ConfigMap on-known-hosts":
			if have := field(m.Object, "data")["known_hosts"]; have != odd {
				t.Errorf("known_hosts: %q", have)
			}
		case "Namespace true":
		default:
			if m.Namespace != "true" && m.Namespace != "kube-system" && !strings.HasPrefix(m.Name, "true:on") {
				t.Errorf("%s %s/%s", m.Kind, m.Namespace, m.Name)
			}
		}
	}
}

// TestSecretsAreInNoConfigMap: files with values that the plan calls sensitive are for the Secret, as files of values
// are.
func TestSecretsAreInNoConfigMap(t *testing.T) {
	const key, pin, word = "-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----\n", "4711\n", "correct horse"
	text := "node \"a\" {\n os = \"linux\"\n connection \"ssh\" { host = \"h\" }\n}\n"
	for id, content := range map[string]string{"key": `sensitive(file("a.key"))`,
		"pin": `sensitive(trimspace(file("pin")))`, "word": `sensitive(jsondecode(file("word.json")).word)`,
		"open": `file("open.txt")`} {
		text += "step \"file\" \"" + id + "\" {\n path = \"/" + id + "\"\n content = " + content + "\n}\n"
	}
	c, dir, read := load(t, map[string]string{"a.join.hcl": text, "a.key": key, "pin": pin,
		"word.json": `{"word": "` + word + `"}`, "open.txt": "it has 4711 words\n"})
	f, err := New(options, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	names := func(files []File) (out []string) {
		for _, f := range files {
			out = append(out, f.Path)
		}
		return out
	}
	if d := cmp.Diff([]string{"a.join.hcl", "open.txt"}, names(f.Files)); d != "" {
		t.Errorf("for the ConfigMap (-want +have):\n%s", d)
	}
	if d := cmp.Diff([]string{"a.key", "pin", "word.json"}, names(f.Values)); d != "" {
		t.Errorf("for the Secret (-want +have):\n%s", d)
	}
	var b bytes.Buffer
	if err := f.Render(&b); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"MC4CAQ", word} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("%s is in the objects", secret)
		}
	}
	if _, err := f.Objects(); err != nil {
		t.Error(err)
	}
}

// TestRightsToDeleteNodes: a run that may delete a Node lists all that may end with it. Others may not delete Nodes.
func TestRightsToDeleteNodes(t *testing.T) {
	moved := planText + "moved {\n from = \"old\"\n to = \"win-0\"\n}\n"
	restored := strings.Replace(planText, "count = 3", "count = 3\n on_failure = \"rollback\"", 1)
	for text, may := range map[string]bool{planText: false, moved: true, restored: true} {
		c, dir, read := load(t, map[string]string{"a.join.hcl": text, "files/settings.yaml": settings})
		f, err := New(options, c, dir, read)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range []string{
			`{apiGroups: [""], resources: ["nodes"], verbs: ["delete"]}`,
			`{apiGroups: [""], resources: ["secrets"], verbs: ["delete","list"]}`,
			`{apiGroups: [""], resources: ["serviceaccounts"], verbs: ["list"]}`,
			`{apiGroups: ["rbac.authorization.k8s.io"], resources: ["clusterrolebindings"], verbs: ["list"]}`,
			`{apiGroups: ["rbac.authorization.k8s.io"], resources: ["clusterroles"], verbs: ["list"]}`,
		} {
			if slices.ContainsFunc(f.Rules, func(r Rule) bool { return r.String() == rule }) != may {
				t.Errorf("rule %s: %v in\n%s", rule, !may, text)
			}
		}
	}
}

// TestWithoutCluster: a plan whose nodes join nothing needs no rights but those to write results.
func TestWithoutCluster(t *testing.T) {
	c, dir, read := load(t, map[string]string{"a.join.hcl": "node \"a\" {\n os = \"linux\"\n" +
		" connection \"ssh\" { host = \"h\" }\n}\nstep \"file\" \"f\" {\n path = \"/x\"\n content = \"\"\n}\n"})
	f, err := New(options, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := f.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if strings.HasPrefix(o.Kind, "ClusterRole") || o.Namespace == "kube-system" {
			t.Errorf("%s", o)
		}
	}
	if f.Kubeconfig.At != "/home/nodejoin/.kube/config" {
		t.Errorf("kubeconfig: %+v", f.Kubeconfig)
	}
}

// TestPortsOfModules: the pods may connect to where the plan's modules are.
func TestPortsOfModules(t *testing.T) {
	digest := strings.Repeat("a", 64)
	c, dir, read := load(t, map[string]string{"a.join.hcl": "node \"a\" {\n os = \"linux\"\n" +
		" connection \"ssh\" { host = \"h\" }\n}\n" +
		"module \"a\" { source = \"oci://registry.example:5000/nodes@sha256:" + digest + "\" }\n" +
		"module \"b\" {\n source = \"http://git.example/nodes.zip\"\n sha256 = \"" + digest + "\"\n}\n",
		"unpacked/m.join.hcl": ""})
	f, err := New(options, c, dir, read)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{22, 80, 443, 5000, 6443}; !slices.Equal(f.Ports, want) {
		t.Errorf("ports %v, want %v", f.Ports, want)
	}
}

// TestRefused: what a pod could not do is refused where the fleet is made.
func TestRefused(t *testing.T) {
	with := func(change func(*Options)) Options {
		o := options
		change(&o)
		return o
	}
	text := func(old, new string) map[string]string {
		return map[string]string{"a.join.hcl": strings.Replace(planText, old, new, 1), "files/settings.yaml": settings}
	}
	for _, c := range []struct {
		o     Options
		files map[string]string
		want  string
	}{
		{with(func(o *Options) { o.Name = "No" }), files, `--name "No": it must have at most 40 small letters`},
		{with(func(o *Options) { o.Namespace = "" }), files, `--namespace ""`},
		{with(func(o *Options) { o.Image = "" }), files, "--image is missing"},
		{with(func(o *Options) { o.Image = "a b" }), files, `--image "a b": it must be a reference`},
		{with(func(o *Options) { o.Shards = 0 }), files, "--shards: it must be a whole number from 1 to 1000"},
		{with(func(o *Options) { o.AtOnce = 0 }), files, "--at-once: it must be at least 1"},
		{with(func(o *Options) { o.Retries = -1 }), files, "--retries"},
		{with(func(o *Options) { o.Drift = "hourly" }), files, `--drift "hourly": it must be a schedule of cron`},
		{with(func(o *Options) { o.KnownHosts = "" }), files,
			`a.join.hcl:24,3: the host key of node "win-0" is not known in a pod: give --known-hosts FILE`},
		{options, text("port = 2222", `identity = ["/etc/keys/id"]`),
			`node "win-0" has the file /etc/keys/id: the pods of a fleet have keys and known_hosts in ~/.ssh`},
		{options, map[string]string{"a.join.hcl": "node \"a\" {\n os = \"linux\"\n connection \"local\" {}\n}\n" +
			"step \"file\" \"f\" {\n path = \"/x\"\n content = \"\"\n}\n"}, `node "a" has the connection "local"`},
		{options, text(`"ssh" {
    host = "win-${count.index}.example"
    port = 2222`, `"sandbox" {
    path = "box-${count.index}"`),
			`node "win-0" has the connection "sandbox": the pods of a fleet reach machines over SSH`},
		{options, text(`node "win" {`, "variable \"at\" { type = string }\nnode \"win\" {"), "at: no value is known here"},
		{options, text("count = 3", "count = 0"), "the plan has no nodes as far as it can be read here"},
		{options, text(`kubeconfig = "admin.conf"`, `sandbox = "cluster"`), "the plan's cluster is a sandbox"},
		{options, map[string]string{"a.join.hcl": planText, "files/settings.yaml": settings + "# " +
			strings.Repeat("x", mostBytes)}, "the files of the plan have more than 1024000 bytes together, which is what an object of Kubernetes holds: give " +
			"--plan-image"},
		{with(func(o *Options) { o.PlanImage = "registry.example/plans" }), files,
			`--plan-image "registry.example/plans": it must be a repository such as oci://registry.example/plans/prod`},
		{with(func(o *Options) { o.PlanImage = "oci://registry.example/plans:1" }), files, "without a tag"},
	} {
		p, dir, read := load(t, c.files)
		if _, err := New(c.o, p, dir, read); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	p, dir, read := load(t, files)
	if _, err := New(options, p, filepath.Dir(dir), read); err == nil ||
		!strings.Contains(err.Error(), "the plan reads files outside its folder") {
		t.Error(err)
	}
}

// TestInPod: the plan finds its kubeconfig in a pod where it looks for it.
func TestInPod(t *testing.T) {
	for file, want := range map[string]Path{
		"/src/p/admin.conf":          {At: "/plan/admin.conf", InPlan: "admin.conf"},
		"/src/p/a/b.conf":            {At: "/plan/a/b.conf", InPlan: "a/b.conf"},
		"/home/me/.kube/config":      {At: "/home/nodejoin/.kube/config"},
		"/etc/kubernetes/admin.conf": {At: "/etc/kubernetes/admin.conf"},
	} {
		if d := cmp.Diff(want, inPod(file, "/src/p", "/home/me")); d != "" {
			t.Errorf("%s (-want +have):\n%s", file, d)
		}
	}
}

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
