package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemas = "../../examples/schema"

// outputs runs the program on a copy of the quickstart and checks its output against
// the schemas. Only fields of the schemas are allowed.
type outputs struct {
	t               *testing.T
	dir, quickstart string
	schemas         map[string]*jsonschema.Schema // compiled so far
}

// TestOutputKeepsToSchemas follows a plan through its life; the order matters.
func TestOutputKeepsToSchemas(t *testing.T) {
	dir := t.TempDir()
	o := &outputs{t, dir, filepath.Join(dir, "quickstart"), map[string]*jsonschema.Schema{}}
	if err := os.CopyFS(o.quickstart, os.DirFS("../../examples/quickstart")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(o.quickstart, ".sandbox")); err != nil {
		t.Fatal(err)
	}
	o.validate()
	o.check()
	o.output()
	o.shards()
	o.apply()
	o.one("plan", o.run(exitOK, "status", "--json", o.quickstart))
	o.one("logs", o.run(exitOK, "logs", "--json", "--output", filepath.Join(dir, "logs.zip"), o.quickstart))
	o.leave()
	o.history()
	o.unreachable()
}

func (o *outputs) run(code int, args ...string) []byte {
	o.t.Helper()
	c := exec.CommandContext(o.t.Context(), "nodejoin", args...)
	c.Env = append(os.Environ(), "HOME="+o.dir, "XDG_STATE_HOME=", "XDG_CACHE_HOME="+filepath.Join(o.dir, ".cache"),
		"SSH_AUTH_SOCK=")
	out, err := c.Output()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != code {
		o.t.Fatalf("%v: %v, want exit code %d\n%s", args, err, code, out)
	}
	return out
}

// value is a JSON value that conforms to a schema.
func (o *outputs) value(schema string, out []byte) any {
	o.t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
	if err != nil {
		o.t.Fatalf("%v in %s", err, out)
	}
	if o.schemas[schema] == nil {
		o.schemas[schema] = compileSchema(o.t, schema)
	}
	if err := o.schemas[schema].Validate(v); err != nil {
		o.t.Errorf("%v\n%s", err, out)
	}
	return v
}

func (o *outputs) one(schema string, out []byte) map[string]any {
	o.t.Helper()
	return o.value(schema, out).(map[string]any)
}

func (o *outputs) validate() {
	fifty := o.one("validate", o.run(exitInvalid, "validate", "--json", fiftyMistakes(o.t)))
	list := fifty["diagnostics"].([]any)
	if len(list) < 50 || fifty["valid"] != false || fifty["error_count"] != json.Number(strconv.Itoa(len(list))) {
		o.t.Errorf("%d diagnostics of 50 mistakes, %v errors, valid: %v", len(list), fifty["error_count"], fifty["valid"])
	}
	good := o.one("validate", o.run(exitOK, "validate", "--json", o.quickstart))
	if good["valid"] != true || len(good["diagnostics"].([]any)) != 0 {
		o.t.Errorf("the quickstart: %v", good)
	}
	o.one("validate", o.run(exitInvalid, "validate", "--json", filepath.Join(o.dir, "none")))
}

func (o *outputs) check() {
	pods := filepath.Join(o.dir, "pods.yaml")
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n" +
		"spec: {os: {name: windows}, hostPID: true, containers: [{name: a, image: a}]}\n"
	if err := os.WriteFile(pods, []byte(pod), 0o600); err != nil {
		o.t.Fatal(err)
	}
	found := o.one("check", o.run(exitFailed, "check", "--json", "--plan", o.quickstart, pods))
	if len(found["findings"].([]any)) == 0 {
		o.t.Errorf("check: %v", found)
	}
}

func (o *outputs) output() {
	dir := o.t.TempDir()
	const text = "output \"a\" {\n  description = \"d\"\n  value = [1, null]\n}\n" +
		"output \"b\" {\n  value = \"x\"\n  sensitive = true\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "a.join.hcl"), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	values := o.one("output", o.run(exitOK, "output", "--json", dir))["outputs"].(map[string]any)
	if len(values) != 2 || values["b"].(map[string]any)["value"] != nil {
		o.t.Errorf("output: %v", values)
	}
}

func (o *outputs) shards() {
	list := o.one("shards", o.run(exitOK, "shards", "--json", "--count", "2", o.quickstart))["shards"].([]any)
	if len(list) != 2 {
		o.t.Errorf("shards: %v", list)
	}
}

func (o *outputs) apply() {
	before := o.one("plan", o.run(exitPending, "plan", "--json", "--detailed-exitcode", o.quickstart))
	if hosts := before["hosts"].([]any); len(hosts) != 2 || before["pending"] == json.Number("0") {
		o.t.Errorf("%d hosts, pending %v", len(hosts), before["pending"])
	}
	types := map[string]int{}
	for line := range bytes.Lines(o.run(exitOK, "apply", "--json", o.quickstart)) {
		types[o.one("event", line)["type"].(string)]++
	}
	if types["version"] != 1 || types["summary"] != 1 || types["step_done"] == 0 || types["host_state"] == 0 {
		o.t.Errorf("lines by type: %v", types)
	}
}

func (o *outputs) leave() {
	out := o.run(exitOK, "leave", "--json", "--target", "win-2", o.quickstart)
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	last := lines[len(lines)-1]
	for _, l := range lines[:len(lines)-1] {
		o.one("event", l)
	}
	sum := o.one("leave", last)
	if items := sum["hosts"].([]any)[0].(map[string]any)["items"].([]any); len(items) < 20 {
		o.t.Errorf("leave: %s", last)
	}
}

func (o *outputs) history() {
	runs := o.value("history", o.run(exitOK, "history", "--json", o.quickstart)).([]any)
	if len(runs) != 2 {
		o.t.Fatalf("%d runs in the history, want the apply and the leave", len(runs))
	}
	name := runs[1].(map[string]any)["run"].(string)
	if r := o.one("history", o.run(exitOK, "history", "--json", name)); len(r["events"].([]any)) == 0 {
		o.t.Errorf("run %s has no events", name)
	}
}

// unreachable puts a file in place of the sandboxes.
func (o *outputs) unreachable() {
	box := filepath.Join(o.quickstart, ".sandbox")
	if err := os.RemoveAll(box); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(box, nil, 0o600); err != nil {
		o.t.Fatal(err)
	}
	out, err := exec.CommandContext(o.t.Context(), "nodejoin", "status", "--json", o.quickstart).Output()
	if err == nil {
		o.t.Error("a file in place of the sandboxes caused no error")
	}
	failed := o.one("plan", out)
	if failed["cluster_error"] == nil && failed["hosts"].([]any)[0].(map[string]any)["error"] == nil {
		o.t.Errorf("no error in %s", out)
	}
}

// fiftyMistakes returns a folder with the plan of the corpus case fifty_mistakes.
func fiftyMistakes(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile("../../plan/testdata/invalid/fifty_mistakes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := bytes.Cut(src, []byte("-- a.join.hcl --\n"))
	text, _, ok := bytes.Cut(text, []byte("-- want --\n"))
	if !ok {
		t.Fatal("the case does not have the expected form")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.join.hcl"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func readSchema(t *testing.T, name string) map[string]any {
	t.Helper()
	f, err := os.Open(filepath.Join(schemas, name+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := jsonschema.UnmarshalJSON(io.Reader(f))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v.(map[string]any)
}

// compileSchema compiles a schema that allows only its own fields. The published schema
// allows others, because later versions may add some.
func compileSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	doc := readSchema(t, name)
	closeObjects(doc)
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeObjects(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			closeObjects(e)
		}
	case map[string]any:
		if v["type"] == "object" && v["properties"] != nil {
			v["additionalProperties"] = false
		}
		for _, e := range v {
			closeObjects(e)
		}
	}
}
