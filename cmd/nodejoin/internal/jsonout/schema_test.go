package jsonout

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan/check"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// TestSchemasAreOfTypes: each schema has the fields of the Go types that nodejoin writes, and
// requires the fields that are always present. Add a new field to the schema; to remove a
// field, raise format_version.
func TestSchemasAreOfTypes(t *testing.T) {
	problem := map[string]any{"problem": ui.Problem{}, "range": ui.Range{}, "position": ui.Pos{}}
	for file, types := range map[string]map[string]any{
		"validate": {"": Validate{}},
		"check":    {"": Check{}, "finding": check.Finding{}},
		"plan": {"": Plan{}, "data": data{}, "former_node": formerNode{}, "object": object{}, "host": planHost{},
			"upgrade":      engine.Upgrade{},
			"interruption": engine.Interruption{}, "removal": removal{}, "step": step{}, "change": steps.Change{},
			"reboot_need": steps.RebootNeed{}, "diff": steps.Diff{},
			"touch": steps.Touch{}, "object_kind": kube.ObjectKind{}, "finding": steps.Finding{},
			"artifact": steps.Source{}, "step_error": steps.Error{}, "facts": host.Facts{}, "last_run": executor.RunNote{},
			"guard": steps.GuardState{}, "guard_problem": steps.GuardProblem{}, "guard_fix": steps.GuardFix{},
			"guard_try": steps.GuardTry{}, "hns_seen": steps.HNSSeen{}, "guard_pause": steps.GuardPause{},
			"credential": steps.Credential{},
			"holder":     steps.LockHolder{}, "desired": desired{}, "desired_cluster": desiredCluster{},
			"desired_rollout": desiredRollout{}, "desired_artifact": desiredArtifact{}, "desired_node": desiredNode{},
			"desired_connection": desiredConnection{}, "desired_step": desiredStep{}, "taint": kube.Taint{}},
		"doctor":  {"": Doctor{}, "host": doctorHost{}, "finding": symptom{}, "facts": host.Facts{}},
		"leave":   {"": Leave{}, "host": leaveHost{}, "item": leaveItem{}},
		"logs":    {"": Logs{}},
		"history": {"run": Run{}, "host": history.Host{}, "entry": history.Entry{}},
		"verify":  {"": Verify{}, "flow": flow{}},
		"event": {"host_state": event.HostState{}, "step_started": event.StepStarted{},
			"step_progress": event.StepProgress{},
			"step_done":     event.StepDone{}, "warning": event.Warning{}, "summary": Summary{},
			"summary_host": summaryHost{}, "removal": removal{}, "pruned": pruned{}, "object": object{},
			"rollback": rollback{}, "version": nil},
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
				continue // it has no type of its own; the tests of the output cover it
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

// jsonFields returns the field names that encoding/json writes for a struct, and the names
// that it always writes.
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

func readSchema(t *testing.T, name string) (doc map[string]any) {
	t.Helper()
	b, err := os.ReadFile("../../../../examples/schema/" + name + ".schema.json")
	if err == nil {
		err = json.Unmarshal(b, &doc)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return doc
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
