package exampletest

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"nodejoin/plan"
	"nodejoin/steps/engine"
)

// Leave removes every node of the plan from the cluster, in a new session.
func Leave(t testing.TB, ctx context.Context, c *plan.Compiled) {
	t.Helper()
	s := Session(t, c)
	r := s.CheckLeave(ctx, engine.LeaveOptions{})
	if r.Cluster != nil {
		t.Fatal(r.Cluster)
	}
	for _, h := range s.Leave(ctx, r, engine.LeaveOptions{}).Hosts {
		if h.Err != nil {
			t.Errorf("%s does not leave: %s: %v", h.Node, h.Failed, h.Err)
		}
		if !h.NodeGone {
			t.Errorf("the Node %s is left", h.Node)
		}
	}
}

// Snapshot returns everything that a machine in a folder has: files with their content, folders and, as "state:
// ...", what is not a file.
func Snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == ".sandbox":
			return fs.SkipDir
		case d.IsDir():
			out[path] = "folder"
			return nil
		}
		text, err := fs.ReadFile(files, path)
		out[path] = string(text)
		return err
	})
	raw, readErr := os.ReadFile(filepath.Join(dir, ".sandbox", "state.json"))
	var state map[string]any
	if err := errors.Join(err, readErr, json.Unmarshal(raw, &state)); err != nil {
		t.Fatal(err)
	}
	delete(state, "last_pid")  // counts the programs that ran
	delete(state, "boot_time") // of the last reboot
	if features, ok := state["features"].(map[string]any); ok {
		maps.DeleteFunc(features, func(_ string, is any) bool { return is == "off" }) // like a feature that was never on
		if len(features) == 0 {
			delete(state, "features")
		}
	}
	if keys, ok := state["registry"].(map[string]any); ok {
		// Keys without a value stay after a leave (examples/operations.md, Leaving).
		maps.DeleteFunc(keys, func(_ string, values any) bool { m, ok := values.(map[string]any); return ok && len(m) == 0 })
	}
	for part, value := range state {
		text, err := json.MarshalIndent(value, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		out["state: "+part] = string(text)
	}
	return out
}
