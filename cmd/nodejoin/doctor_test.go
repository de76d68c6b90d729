package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// example copies an example into a new folder, without files that earlier runs left. It returns
// a function that runs the program there and checks its output against a schema.
func example(t *testing.T, name string) (dir string,
	run func(schema *jsonschema.Schema, code int, args ...string) map[string]any) {
	t.Helper()
	home := t.TempDir()
	dir = filepath.Join(home, name)
	if err := copyExample(os.DirFS("../../examples/"+name), dir); err != nil {
		t.Fatal(err)
	}
	return dir, func(schema *jsonschema.Schema, code int, args ...string) map[string]any {
		t.Helper()
		c := exec.CommandContext(t.Context(), "nodejoin", args...)
		c.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, ".cache"), "SSH_AUTH_SOCK=")
		var told bytes.Buffer
		c.Stderr = &told
		out, _ := c.Output()
		if c.ProcessState == nil || c.ProcessState.ExitCode() != code {
			t.Fatalf("%v: %v, want exit code %d\n%s%s", args, c.ProcessState, code, out, told.Bytes())
		}
		if schema == nil {
			return nil
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return v.(map[string]any)
	}
}

// TestDoctorKeepsToSchema: the output keeps to the schema before and after a join, with a problem, and after a fix.
func TestDoctorKeepsToSchema(t *testing.T) {
	dir, run := example(t, "quickstart")
	doctor := compileSchema(t, "doctor")
	first := func(v map[string]any) map[string]any { return v["hosts"].([]any)[0].(map[string]any) }
	if h := first(run(doctor, exitOK, "doctor", "--json", dir)); h["joined"] != false || len(h["findings"].([]any)) == 0 {
		t.Errorf("before the join: %v", h)
	}
	run(nil, exitOK, "apply", "--display", "quiet", dir)
	if h := first(run(doctor, exitOK, "doctor", "--json", dir)); h["joined"] != true {
		t.Errorf("after the join: %v", h)
	}
	if err := os.Remove(filepath.Join(dir, ".sandbox", "win-1", "C", "run", "flannel", "subnet.env")); err != nil {
		t.Fatal(err)
	}
	run(doctor, exitFailed, "doctor", "--json", dir)
	if h := first(run(doctor, exitOK, "doctor", "--json", "--fix", dir)); len(h["fixed"].([]any)) == 0 {
		t.Errorf("fixed: %v", h)
	}
}
