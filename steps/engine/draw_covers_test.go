package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/steps"
)

// notDrawn are the blocks and arguments that no plan of the pairs has, with the reason. "*" stands for any text.
var notDrawn = map[string]string{
	"*/keep":                             "differs from the plan alone: TestKeptIsForgotten, TestObjectsOfThePlan",
	"step service_account_token/unbound": "as a step of its own it makes a token in each run",
	"step service_account_token/ttl":     "as a step of its own it makes a token in each run",
	"step archive/url":                   "no server; a file's bytes go the same way once they are there",
	"step binary/url":                    "no server; a file's bytes go the same way once they are there",
	"login":                              "no server; artifact TestRegistryLogin",
	"login/username":                     "no server; artifact TestRegistryLogin",
	"login/password_env":                 "no server; artifact TestRegistryLogin",
	"login/token_file":                   "no server; artifact TestTokenLogin",
	"artifact/url":                       "no server; a file's bytes go the same way once they are there",
	"artifact/checksum":                  "asked by lock alone; no step comes of it",
	"artifact/signature*":                "asked by lock and of the lock; no step comes of it",
	"verify*":                            "asked of the lock; no step comes of it",
	"*/credential_provider/url":          "no server; a file's bytes go the same way once they are there",
	"*/follow/url":                       "no server; a file's bytes go the same way once they are there",
	"*/follow/login":                     "a secret of the controller; script follow_sigstore",
	"*/follow/login/username":            "a secret of the controller; script follow_sigstore",
	"*/follow/login/password_env":        "a secret of the controller; script follow_sigstore",
	"*/follow/login/token_file":          "a secret of the controller; corpus follow_trust",
	"*/follow/sigstore/trust_root":       "a file like that of the keys; corpus follow_trust",
	"step ssh_server*":                   "stays until the leave: kinds TestSSHServerStays, TestSSHServerLeaves",
	"node/mirror":                        "no server; a file's bytes go the same way once they are there",
	"profile/mirror":                     "no server; a file's bytes go the same way once they are there",
	"mirror/url":                         "no server; a file's bytes go the same way once they are there",
	"cluster/kubeconfig":                 "a real cluster; the sandbox cluster stands in its place",
	"cluster/ca_hash":                    "a sandbox cluster has a CA of its own, and the language refuses a pin of it",
	"node/connection ssh*":               "how the machine is reached, not what becomes of it",
	"node/connection winrm*":             "how the machine is reached, not what becomes of it",
	"node/connection local":              "how the machine is reached, not what becomes of it",
	"node/build":                         "of real machines; the connection of a sandbox has it instead",
	"profile/build":                      "of real machines; the connection of a sandbox has it instead",
	"check*":                             "asked of the plan itself; no step comes of it",
	"data*":                              "a value that the controller reads; no step comes of it",
	"moved*":                             "a Node that another plan made: TestMovedNode",
	"output*":                            "a value for the reader; no step comes of it",
	"module*":                            "values that the compiler computes; no step comes of it",
}

func excepted(name string) bool {
	for pattern := range notDrawn {
		if begin, end, any := strings.Cut(pattern, "*"); name == pattern ||
			any && strings.HasPrefix(name, begin) && strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// TestDrawCovers: the plans that are drawn have every block, argument and kind of step of the language. Each choice
// is in a plan that the language takes.
func TestDrawCovers(t *testing.T) {
	have := map[string]bool{}
	for _, osName := range []string{"windows", "linux"} {
		for _, choices := range dimensions(osName) {
			for _, c := range choices {
				if c.name != "" {
					coverChoice(t, have, osName, c)
				}
			}
		}
	}
	want := map[string]bool{}
	blockWants(want, block.RootSpec, "")
	for name, kind := range block.KindSpecs() {
		for _, a := range kind.Block.Attrs {
			want["step "+name+"/"+a.Name] = true
		}
		for _, a := range block.StepAttrs {
			delete(want, "step "+name+"/"+a.Name)
			want["step/"+a.Name] = true
		}
		want["step "+name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch {
		case !have[name] && !excepted(name):
			t.Errorf("no plan has %s", name)
		case have[name] && excepted(name):
			t.Errorf("%s is drawn, and an exception", name)
		}
	}
}

// coverChoice notes what a plan with the choice has.
func coverChoice(t *testing.T, have map[string]bool, osName string, c choice) {
	w := newWorld(t)
	name := filepath.Join(w.dir, "quickstart.join.hcl")
	var refused []error
	shown := false
	for _, more := range [][]string{nil, {"old"}, {"old", "docker"}, {"old", "mcr"}, {"exporter"}, {"csi"},
		{"old", "docker", "installed"}, {"old", "mcr", "installed"}} {
		d := planOf(osName, append(more, c.name)...)
		w.write(d)
		compiled, err := w.compiled()
		text, _ := os.ReadFile(name)
		if err == nil && shows(string(text), c) {
			shown = true
			written(t, have, name, text)
			made(t, have, compiled.Nodes[0].Steps)
			if c.in["runtime docker"] == "" && c.name != "installed" { // else each of the runtimes
				break
			}
		}
		refused = append(refused, err)
	}
	if !shown {
		t.Errorf("%s: %s is refused: %v", osName, c.name, refused[0])
	}
}

// made notes the steps of a plan.
func made(t *testing.T, have map[string]bool, list []steps.Spec) {
	for _, s := range list {
		var args map[string]json.RawMessage
		if err := json.Unmarshal(s.Args.JSON(), &args); err != nil {
			t.Fatal(err)
		}
		have["step "+s.Kind] = true
		for arg := range args {
			have[fmt.Sprintf("step %s/%s", s.Kind, arg)] = true
		}
	}
}

// shows reports whether a plan has what a choice adds.
func shows(text string, c choice) bool {
	for _, in := range c.in {
		if !strings.Contains(text, in) {
			return false
		}
	}
	return true
}

// written notes the blocks and arguments of a plan.
func written(t *testing.T, have map[string]bool, name string, text []byte) {
	f, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	writtenIn(have, f.Body.(*hclsyntax.Body), "")
}

func writtenIn(have map[string]bool, body *hclsyntax.Body, path string) {
	for name := range body.Attributes {
		have[path+"/"+name] = true
		if strings.HasPrefix(path, "step ") {
			have["step/"+name] = true
		}
	}
	for _, b := range body.Blocks {
		at := strings.TrimPrefix(path+"/"+b.Type, "/")
		if len(b.Labels) > 0 && slices.Contains([]string{"step", "join", "runtime", "network", "connection"},
			b.Type) {
			at += " " + b.Labels[0]
		}
		have[at] = true
		writtenIn(have, b.Body, at)
	}
}

// blockWants are the blocks and arguments below a block of the language, but for those of steps.
func blockWants(want map[string]bool, s *eval.Spec, path string) {
	for _, a := range s.Attrs {
		want[path+"/"+a.Name] = true
	}
	for _, b := range s.Blocks {
		at := strings.TrimPrefix(path+"/"+b.Name, "/")
		if b.Name == "step" {
			continue
		}
		if b.Kinds == nil {
			want[at] = true
			blockWants(want, b, at)
			continue
		}
		for label, k := range b.Kinds {
			want[at+" "+label] = true
			blockWants(want, k, at+" "+label)
		}
	}
}
