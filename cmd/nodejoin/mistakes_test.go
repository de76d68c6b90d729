package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// mistake is an edit, a command and its exit code.
type mistake struct {
	name  string
	edit  []string
	in    string // the file to edit; "" = the plan
	files map[string]string
	args  string
	code  int
}

// mistakes are common mistakes: edits of the quickstart's plan (old and new text in turn), a command and its exit
// code. Files are written beside the plan first.
var mistakes = []mistake{
	{name: "wrong path", args: "plan nowhere", code: exitInvalid},
	{name: "empty folder", args: "plan empty", files: map[string]string{"empty/.keep": ""}, code: exitInvalid},
	{name: "folder of another program", args: "plan tf", files: map[string]string{"tf/main.tf": "x"}, code: exitInvalid},
	{name: "two arguments", args: "plan one two", code: exitInvalid},
	{name: "unknown command", args: "aply", code: exitInvalid},
	{name: "command of another program", args: "destroy", code: exitInvalid},
	{name: "misspelt flag", args: "apply --auto-aprove", code: exitInvalid},
	{name: "flag with one dash", args: "apply -auto-approve", code: exitInvalid},
	{name: "flag without its value", args: "plan --out", code: exitInvalid},
	{name: "flag of yes or no", args: "apply --auto-approve=maybe", code: exitInvalid},
	{name: "flag out of range", args: "plan --parallel 0", code: exitInvalid},
	{name: "flag with another value", args: "plan --display loud", code: exitInvalid},
	{name: "var without a name", args: "plan --var x", code: exitInvalid},
	{name: "variable without a value", edit: []string{`cluster "demo"`,
		"variable \"ip\" { type = string }\ncluster \"demo\"",
		`"https://10.0.0.10:6443"`, `"https://${var.ip}:6443"`}, args: "plan", code: exitInvalid},
	{name: "undeclared variable", edit: []string{`"https://10.0.0.10:6443"`, "var.api"}, args: "plan", code: exitInvalid},
	{name: "undeclared variable given", args: "plan --var api=1", code: exitInvalid},
	{name: "variable file missing", args: "plan --var-file prod.joinvars", code: exitInvalid},
	{name: "wrong type of a variable", edit: []string{`cluster "demo"`,
		"variable \"h\" { type = map(object({ ip = string })) }\ncluster \"demo\"",
		`{ "win-1" = "192.0.2.11", "win-2" = "192.0.2.12" }`,
		"var.h", "= each.value", "= each.value.ip"}, args: "plan --var h=[]", code: exitInvalid},
	{name: "wrong type inside a variable", edit: []string{`cluster "demo"`,
		"variable \"h\" { type = map(object({ ip = string })) }\ncluster \"demo\"",
		`{ "win-1" = "192.0.2.11", "win-2" = "192.0.2.12" }`,
		"var.h", "= each.value", "= each.value.ip"}, args: "plan --var h={a={}}", code: exitInvalid},
	{name: "condition of a variable", edit: []string{`cluster "demo"`,
		"variable \"n\" {\n  default = 1\n  validation {\n" +
			"    condition     = var.n > 2\n    error_message = \"At least three.\"\n  }\n}\ncluster \"demo\""}, args: "plan",
		code: exitInvalid},
	{name: "misspelt node in --target", args: "plan --target node.win-3", code: exitInvalid},
	{name: "misspelt step in --target", args: "plan --target node.win-1.kublet", code: exitInvalid},
	{name: "misspelt step in after", edit: []string{`["kubelet"]`, `["kublet"]`}, args: "plan", code: exitInvalid},
	{name: "misspelt profile", edit: []string{"= profile.windows", "= profile.window"}, args: "plan", code: exitInvalid},
	{name: "misspelt attribute", edit: []string{"pod_cidr ", "pod_cdir "}, args: "plan", code: exitInvalid},
	{name: "two plans in a folder",
		files: map[string]string{"other.join.hcl": "cluster \"b\" {}\nnode \"c\" {}\n"}, args: "plan",
		code: exitInvalid},
	{name: "old Kubernetes", edit: []string{`"1.36.3"`, `"1.18.2"`}, args: "plan", code: exitInvalid},
	{name: "Kubernetes with a v", edit: []string{`"1.36.3"`, `"v1.36"`}, args: "plan", code: exitInvalid},
	{name: "wrong network", edit: []string{`"10.244.0.0/16"`, `"10.244.0.0/33"`}, args: "plan", code: exitInvalid},
	{name: "networks that overlap", edit: []string{`"10.244.0.0/16"`, `"10.96.0.0/16"`}, args: "plan", code: exitInvalid},
	{name: "syntax", edit: []string{`profile "windows" {`, `profile "windows"`}, args: "plan", code: exitInvalid},
	{name: "wrong digest", in: "nodejoin.lock.hcl", edit: []string{`"46572e`, `"56572e`}, args: "apply --auto-approve",
		code: exitFailed},
	{name: "mirror missing", edit: []string{`"./mirror"`, `"./miror"`}, args: "apply --auto-approve", code: exitFailed},
	{name: "path of another system", edit: []string{`"C:\\k\\README.txt"`, `"/k/README.txt"`}, args: "plan",
		code: exitInvalid},
	{name: "two nodes on one machine", edit: []string{`".sandbox/${each.key}"`, `".sandbox/one"`}, args: "plan",
		code: exitInvalid},
	{name: "kubeconfig missing", edit: []string{`sandbox      = ".sandbox/cluster"`, `kubeconfig = "kubeconfig"`},
		args: "plan",
		code: exitInvalid},
	{name: "kubeconfig that is none", edit: []string{`sandbox      = ".sandbox/cluster"`, `kubeconfig = "kubeconfig"`},
		files: map[string]string{"kubeconfig": "- just\n- words\n"}, args: "plan", code: exitInvalid},
	{name: "kubeconfig that trusts anybody", edit: []string{`sandbox      = ".sandbox/cluster"`,
		`kubeconfig = "kubeconfig"`},
		files: map[string]string{"kubeconfig": "apiVersion: v1\nkind: Config\ncurrent-context: x\n" +
			"contexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n" +
			"clusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\", insecure-skip-tls-verify: true}}]\n"},
		args: "plan", code: exitInvalid},
	{name: "misspelt state", args: "status --only drifting", code: exitInvalid},
	{name: "leave without a target", args: "leave", code: exitInvalid},
	{name: "prune with a target", args: "apply --prune --target node.win-1", code: exitInvalid},
	{name: "unknown run", args: "history 20200101T000000Z-1", code: exitInvalid},
	{name: "saved plan that is none", files: map[string]string{"saved": "{}"}, args: "apply saved", code: exitInvalid},
}

// file is the file that the edits change.
func (m mistake) file() string {
	if m.in != "" {
		return m.in
	}
	return "quickstart.join.hcl"
}

// foreign are words of Go and of libraries, which do not help a person who made a mistake.
var foreign = regexp.MustCompile(`strconv|unmarshal|json:|yaml:|\bstruct\b|\bcty\b|map of object\b|` +
	`no such file or directory|context canceled|%!|goroutine|nil pointer|error converting|couldn't get`)

var wrapped = regexp.MustCompile(`([^\n|]) *\n\| (\S)`)

// TestMistakes: each mistake gives its exit code and text (testdata/mistakes.txtar; UPDATE_SCRIPTS=1 rewrites it).
func TestMistakes(t *testing.T) {
	const golden = "testdata/mistakes.txtar"
	want, err := txtar.ParseFile(golden)
	if err != nil && os.Getenv("UPDATE_SCRIPTS") == "" {
		t.Fatal(err)
	}
	texts := map[string]string{}
	if want != nil {
		for _, f := range want.Files {
			texts[f.Name] = string(f.Data)
		}
	}
	written, err := filepath.Abs(golden)
	if err != nil {
		t.Fatal(err)
	}
	have := &txtar.Archive{Comment: []byte("What TestMistakes prints for each mistake.\n")}
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := copyExample(os.DirFS("../../examples/quickstart"), dir); err != nil {
				t.Fatal(err)
			}
			editFile(t, filepath.Join(dir, m.file()), strings.NewReplacer(m.edit...))
			for name, text := range m.files {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			t.Setenv("LocalAppData", os.Getenv("XDG_STATE_HOME"))
			var out, problems bytes.Buffer
			a := &app{term: &ui.Term{Out: &out, Err: &problems, In: strings.NewReader("")}}
			args := strings.Fields(m.args)
			if args[0] == "plan" || args[0] == "apply" {
				args = slices.Insert(args, 1, "--display", "quiet")
			}
			code := execute(context.Background(), a, args)
			if code != m.code {
				t.Errorf("exit code %d, want %d", code, m.code)
			}
			text := strings.ReplaceAll(problems.String(), dir, "DIR")
			text = wrapped.ReplaceAllString(text, "$1 $2") // paths differ in length
			text = strings.TrimSpace(strings.ReplaceAll(text, "\\", "/"))
			text = fmt.Sprintf("nodejoin %s\nexit code %d\n%s\n", m.args, code, text)
			if word := foreign.FindString(text); word != "" {
				t.Errorf("the text has %q", word)
			}
			if have := texts[m.name]; have != text && os.Getenv("UPDATE_SCRIPTS") == "" {
				t.Errorf("(-want +have), UPDATE_SCRIPTS=1 writes it:\n%s", cmp.Diff(have, text))
			}
			have.Files = append(have.Files, txtar.File{Name: m.name, Data: []byte(text)})
		})
	}
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(written, txtar.Format(have), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
