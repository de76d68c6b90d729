package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"nodejoin/steps/verify"
)

// TestVerifyKeepsToSchema: the output keeps to the schema before and after a join, and names every flow.
func TestVerifyKeepsToSchema(t *testing.T) {
	dir, run := example(t, "quickstart")
	schema := compileSchema(t, "verify")
	if v := run(schema, exitFailed, "verify", "--json", dir); v["namespace"] != nil || fmt.Sprint(v["failed"]) != "2" {
		t.Errorf("before the join: %v", v)
	}
	run(nil, exitOK, "apply", "--display", "quiet", dir)
	v := run(schema, exitOK, "verify", "--json", "--target", "win-1", dir)
	flows := v["flows"].([]any)
	if len(flows) != len(verify.Flows) || v["namespace"] == nil || v["remains"] != nil {
		t.Errorf("after the join: %v", v)
	}
	for i, f := range flows {
		if f.(map[string]any)["flow"] != verify.Flows[i].Name {
			t.Errorf("%v, want %s", f, verify.Flows[i].Name)
		}
	}
	cluster := filepath.Join(dir, ".sandbox", "cluster", "cluster.json")
	b, err := os.ReadFile(cluster)
	if err == nil {
		err = os.WriteFile(cluster, bytes.Replace(b, []byte(`"nodes": {`), []byte(`"down": true, "nodes": {`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if v := run(schema, exitUnreachable, "verify", "--json", dir); v["cluster_error"] == nil {
		t.Errorf("without the cluster: %v", v)
	}
}
