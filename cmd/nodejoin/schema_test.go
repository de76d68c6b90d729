package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan/check"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

const schemas = "../../examples/schema"

// TestSchemasAreOfTypes: each schema has the fields of the types that are written,
// and requires those that are always there. A field more is a new one there; a field
// less is a new format_version.
func TestSchemasAreOfTypes(t *testing.T) {
	problem := map[string]any{"problem": ui.Problem{}, "range": ui.Range{}, "position": ui.Pos{}}
	for file, types := range map[string]map[string]any{
		"validate": {"": jsonDiagnostics{}},
		"check":    {"": jsonCheck{}, "finding": check.Finding{}},
		"plan": {"": jsonPlan{}, "former_node": jsonFormer{}, "host": jsonHost{}, "upgrade": engine.Upgrade{},
			"interruption": engine.Interruption{}, "step": jsonStep{}, "change": steps.Change{},
			"reboot_need": steps.RebootNeed{}, "diff": steps.Diff{},
			"touch": steps.Touch{}, "object_kind": kube.ObjectKind{}, "finding": steps.Finding{},
			"artifact": steps.Source{}, "step_error": steps.Error{}, "facts": host.Facts{}, "last_run": steps.RunNote{},
			"holder": steps.Holder{}},
		"doctor":  {"": jsonDoctor{}, "host": jsonDoctorHost{}, "finding": jsonSymptom{}, "facts": host.Facts{}},
		"leave":   {"": jsonLeave{}, "host": jsonLeaveHost{}, "item": jsonLeaveItem{}},
		"logs":    {"": jsonLogs{}},
		"history": {"run": jsonRun{}, "host": history.Host{}, "entry": history.Entry{}},
		"verify":  {"": jsonVerify{}, "flow": jsonFlow{}},
		"event": {"host_state": event.HostState{}, "step_started": event.StepStarted{},
			"step_progress": event.StepProgress{},
			"step_done":     event.StepDone{}, "warning": event.Warning{}, "summary": jsonSummary{},
			"summary_host": jsonSummaryHost{}, "pruned": jsonPruned{}, "rollback": jsonRollback{}, "version": nil},
	} {
		for name, v := range problem {
			if file == "check" || file == "logs" || file == "history" {
				break // they have problems of their own, or none
			}
			types[name] = v
		}
		doc := readSchema(t, file)
		defs, _ := doc["$defs"].(map[string]any) // some have none
		for name := range defs {
			if _, ok := types[name]; !ok {
				t.Errorf("%s: no type is known for %q", file, name)
			}
		}
		for name, v := range types {
			node := doc
			if name != "" {
				node, _ = defs[name].(map[string]any)
			}
			if v == nil {
				continue // no type of its own; the output shows it
			}
			fields, required := jsonFields(reflect.TypeOf(v))
			if _, isEvent := v.(event.Event); isEvent { // Encode adds it
				fields, required = append(fields, "type"), append(required, "type")
			}
			if d := cmp.Diff(sorted(fields), sorted(keysOf(node["properties"]))); d != "" {
				t.Errorf("%s, %q: fields (-type +schema):\n%s", file, name, d)
			}
			if d := cmp.Diff(sorted(required), sorted(stringsOf(node["required"]))); d != "" {
				t.Errorf("%s, %q: required fields (-type +schema):\n%s", file, name, d)
			}
		}
	}
}

// jsonFields are the names under which encoding/json writes a struct, and those that
// are always written.
func jsonFields(t reflect.Type) (all, always []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		all = append(all, name)
		if !strings.Contains(opts, "omit") {
			always = append(always, name)
		}
	}
	return all, always
}

// TestOutputKeepsToSchemas runs the program and holds what it writes against the
// schemas, in which no other fields are allowed for this.
func TestOutputKeepsToSchemas(t *testing.T) {
	dir := t.TempDir()
	quickstart := filepath.Join(dir, "quickstart")
	if err := os.CopyFS(quickstart, os.DirFS("../../examples/quickstart")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(quickstart, ".sandbox")); err != nil {
		t.Fatal(err)
	}
	run := func(code int, args ...string) []byte {
		t.Helper()
		c := exec.CommandContext(t.Context(), "nodejoin", args...)
		c.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "XDG_CACHE_HOME="+filepath.Join(dir, ".cache"),
			"SSH_AUTH_SOCK=")
		out, err := c.Output()
		if c.ProcessState == nil || c.ProcessState.ExitCode() != code {
			t.Fatalf("%v: %v, want exit code %d\n%s", args, err, code, out)
		}
		return out
	}
	validate, plan, line := compileSchema(t, "validate"), compileSchema(t, "plan"), compileSchema(t, "event")
	one := func(s *jsonschema.Schema, out []byte) map[string]any {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return v.(map[string]any)
	}

	fifty := one(validate, run(exitInvalid, "validate", "--json", fiftyMistakes(t)))
	list := fifty["diagnostics"].([]any)
	if len(list) < 50 || fifty["valid"] != false || fifty["error_count"] != json.Number(strconv.Itoa(len(list))) {
		t.Errorf("%d diagnostics of 50 mistakes, %v errors, valid: %v", len(list), fifty["error_count"], fifty["valid"])
	}
	if good := one(validate, run(exitOK, "validate", "--json", quickstart)); good["valid"] != true ||
		len(good["diagnostics"].([]any)) != 0 {
		t.Errorf("the quickstart: %v", good)
	}
	one(validate, run(exitInvalid, "validate", "--json", filepath.Join(dir, "none")))

	pods := filepath.Join(dir, "pods.yaml")
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n" +
		"spec: {os: {name: windows}, hostPID: true, containers: [{name: a, image: a}]}\n"
	if err := os.WriteFile(pods, []byte(pod), 0o600); err != nil {
		t.Fatal(err)
	}
	found := one(compileSchema(t, "check"), run(exitFailed, "check", "--json", "--plan", quickstart, pods))
	if len(found["findings"].([]any)) == 0 {
		t.Errorf("check: %v", found)
	}

	before := one(plan, run(exitPending, "plan", "--json", "--detailed-exitcode", quickstart))
	if hosts := before["hosts"].([]any); len(hosts) != 2 || before["pending"] == json.Number("0") {
		t.Errorf("%d hosts, pending %v", len(hosts), before["pending"])
	}
	types := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(run(exitOK, "apply", "--json", quickstart)))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		types[one(line, lines.Bytes())["type"].(string)]++
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if types["version"] != 1 || types["summary"] != 1 || types["step_done"] == 0 || types["host_state"] == 0 {
		t.Errorf("lines by type: %v", types)
	}
	one(plan, run(exitOK, "status", "--json", quickstart))
	one(compileSchema(t, "logs"), run(exitOK, "logs", "--json", "--output", filepath.Join(dir, "logs.zip"), quickstart))
	left := bytes.Split(bytes.TrimSpace(run(exitOK, "leave", "--json", "--target", "win-2", quickstart)), []byte("\n"))
	for _, l := range left[:len(left)-1] {
		one(line, l)
	}
	sum := one(compileSchema(t, "leave"), left[len(left)-1])
	if items := sum["hosts"].([]any)[0].(map[string]any)["items"].([]any); len(items) < 20 {
		t.Errorf("leave: %s", left[len(left)-1])
	}
	runs, err := jsonschema.UnmarshalJSON(bytes.NewReader(run(exitOK, "history", "--json", quickstart)))
	if err = errors.Join(err, compileSchema(t, "history").Validate(runs)); err != nil {
		t.Fatal(err)
	}
	if list := runs.([]any); len(list) != 2 {
		t.Errorf("%d runs in the history, want the apply and the leave", len(list))
	} else {
		name := list[1].(map[string]any)["run"].(string)
		if r := one(compileSchema(t, "history"), run(exitOK, "history", "--json", name)); len(r["events"].([]any)) == 0 {
			t.Errorf("run %s has no events", name)
		}
	}
	// A machine that cannot be asked.
	box := filepath.Join(quickstart, ".sandbox")
	if err := os.RemoveAll(box); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(box, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "nodejoin", "status", "--json", quickstart)
	out, err := c.Output()
	if err == nil {
		t.Error("a file in place of the sandboxes was no error")
	}
	failed := one(plan, out)
	if failed["cluster_error"] == nil && failed["hosts"].([]any)[0].(map[string]any)["error"] == nil {
		t.Errorf("no error in %s", out)
	}
}

// fiftyMistakes is the folder of the plan of that case of the language's corpus.
func fiftyMistakes(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile("../../plan/testdata/invalid/fifty_mistakes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := bytes.Cut(src, []byte("-- a.join.hcl --\n"))
	text, _, ok := bytes.Cut(text, []byte("-- want --\n"))
	if !ok {
		t.Fatal("the case has another form")
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

// compileSchema gives a schema in which objects have no fields but those it names.
// As published it allows others, since later versions may add some.
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

func keysOf(v any) []string {
	m, _ := v.(map[string]any)
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

func stringsOf(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		out = append(out, e.(string))
	}
	return out
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
