package plan_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/txtar"

	"nodejoin/plan"
	"nodejoin/plan/eval"
	"nodejoin/plan/source"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

var update = flag.Bool("update", false, "write what the corpus gives as what is wanted")

// wantFile is the last file of a case: the diagnostics and, if the plan has no
// errors, the compiled plan.
const wantFile = "want"

// TestCorpus runs the cases of testdata/valid and testdata/invalid. A case is a
// txtar archive: its files are the plan, and its comment has one directive a line:
//
//	# free text
//	with NAME           add testdata/with/NAME.join.hcl
//	var NAME=VALUE      as --var; no diagnostic may show the value of "secret"
//	varfile FILE        as --var-file
//	env NAME=VALUE      the controller's environment
//	environment NAME    as --env
//	exec COMMAND=OUTPUT what the program of a data block prints; others are not in PATH
//	module ADDRESS@DIGEST=DIR  a module elsewhere, which is unpacked into the folder unpacked/DIR; there are no others
//	version VERSION     of nodejoin, default 0.1.0
//	path PATH           the path to load, default the folder
//	raw FILE "TEXT"     a file whose bytes are a quoted Go string
//	link NAME TARGET    a symbolic link
//	noagent             nodejoin has no agents
//	untrusted           as --untrusted
//	unvalued            as validate: variables may have no value
//	offline             as --offline
//	bundle              the plan is from a bundle, which has all files but those that are named lost
//	brokenagent         there is no way to get the agents
//	stoppedagent        the run is stopped while the agent is made
//	recipe              also show the steps of the recipe
//	show ID             show what the recipe's step ID writes or runs
func TestCorpus(t *testing.T) {
	for _, sort := range []string{"valid", "invalid"} {
		cases, err := filepath.Glob(filepath.Join("testdata", sort, "*.txtar"))
		if err != nil || len(cases) == 0 {
			t.Fatalf("no cases in testdata/%s: %v", sort, err)
		}
		for _, file := range cases {
			t.Run(sort+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				runCase(t, file, sort == "valid")
			})
		}
	}
}

func runCase(t *testing.T, file string, valid bool) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := corpusCase{dir: dir, path: dir, opt: plan.Options{Version: "0.1.0", Vars: map[string]string{}, Agent: testAgent,
		Self: testSelf},
		env: map[string]string{}, programs: map[string]string{}, modules: map[string]string{}}
	c.opt.Program, c.opt.Module = c.program, c.module
	c.opt.Env = func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
	if err := c.directives(string(ar.Comment)); err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, f := range ar.Files {
		if f.Name == wantFile {
			want = string(f.Data)
		} else if err := c.write(f.Name, f.Data); err != nil {
			t.Fatal(err)
		}
	}
	have, ok := c.run()
	if ok != valid {
		t.Errorf("valid = %v, want %v", ok, valid)
	}
	if secret := c.opt.Vars["secret"]; secret != "" && !valid && strings.Contains(have, secret) {
		t.Error("a diagnostic shows a sensitive value")
	}
	if valid {
		c.titles(t)
	}
	if again, _ := c.run(); again != have {
		t.Errorf("the second run differs (-first +second):\n%s", cmp.Diff(have, again))
	}
	if have == want {
		return
	}
	if !*update {
		t.Fatalf("(-want +have), go test ./plan -update writes it:\n%s", cmp.Diff(want, have))
	}
	ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return f.Name == wantFile })
	ar.Files = append(ar.Files, txtar.File{Name: wantFile, Data: []byte(have)})
	if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
		t.Fatal(err)
	}
}

// titles checks that the texts that plans show of a step have no sensitive value.
func (c *corpusCase) titles(t *testing.T) {
	t.Helper()
	secret := c.opt.Vars["secret"]
	p, list := plan.Load(c.path, c.opt)
	if secret == "" || list.HasErrors() {
		return
	}
	out, _ := p.Compile()
	if out == nil {
		return
	}
	for _, n := range out.Nodes {
		for _, s := range n.Steps {
			if strings.Contains(s.Title, secret) {
				t.Errorf("the title of %s shows a sensitive value", s.ID)
			}
		}
	}
}

func testAgent(os, arch, _ string) (steps.Source, error) {
	return steps.Source{File: "/agents/" + os + "-" + arch, SHA256: strings.Repeat("a", 64)}, nil
}

// testSelf is nodejoin where it runs on linux/amd64.
func testSelf(os, arch, _ string) (steps.Source, error) {
	if os != "linux" || arch != "amd64" {
		return steps.Source{}, errors.New("the one that runs is for linux/amd64")
	}
	return steps.Source{File: "/programs/nodejoin", SHA256: strings.Repeat("b", 64)}, nil
}

// bundledFile is a file of a bundle.
func bundledFile(src steps.Source) string {
	if strings.Contains(src.Name(), "lost") {
		return ""
	}
	return "/bundle/" + filepath.Base(src.Name())
}

type corpusCase struct {
	dir, path string
	opt       plan.Options
	env       map[string]string
	programs  map[string]string
	modules   map[string]string // folders of unpacked modules, by address and digest
	recipe    bool
	show      []string
}

func (c *corpusCase) write(name string, data []byte) error {
	to := filepath.Join(c.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// program stands in for the programs of data blocks; cmd/nodejoin runs real ones.
func (c *corpusCase) program(p eval.Program) ([]byte, error) {
	name := strings.TrimPrefix(strings.Join(p.Command, " "), c.dir+string(filepath.Separator))
	if out, ok := c.programs[name]; ok && p.Dir == c.dir {
		return []byte(strings.ReplaceAll(out, "$ENV", strings.Join(p.Env, " "))), nil
	}
	stderr := "no such zone"
	if name == "secretly" {
		stderr = c.opt.Vars["secret"]
	}
	return nil, &eval.ProgramError{What: "ended with exit status 3", Remedy: "Try again.", Stderr: stderr}
}

// module stands in for modules that are not beside the plan; cmd/nodejoin reads real ones.
func (c *corpusCase) module(r source.Remote) (string, error) {
	if dir, ok := c.modules[r.Address+"@"+r.SHA256]; ok {
		return dir, nil
	}
	return "", errors.New("the server answers 404 Not Found")
}

func (c *corpusCase) directives(text string) error {
	in := bufio.NewScanner(strings.NewReader(text))
	for in.Scan() {
		word, rest, _ := strings.Cut(strings.TrimSpace(in.Text()), " ")
		name, value, _ := strings.Cut(rest, "=")
		switch word {
		case "", "#":
		case "with":
			src, err := os.ReadFile(filepath.Join("testdata", "with", rest+plan.Suffix))
			if err != nil {
				return err
			}
			if err := c.write("with_"+rest+plan.Suffix, src); err != nil {
				return err
			}
		case "var":
			c.opt.Vars[name] = value
		case "varfile":
			c.opt.VarFiles = append(c.opt.VarFiles, filepath.Join(c.dir, rest))
		case "env":
			c.env[name] = value
		case "environment":
			c.opt.Environment = rest
		case "exec":
			c.programs[name] = value
		case "module":
			at := strings.LastIndex(rest, "=")
			c.modules[rest[:at]] = filepath.Join(c.dir, "unpacked", rest[at+1:])
		case "version":
			c.opt.Version = rest
		case "path":
			c.path = filepath.Join(c.dir, rest)
		case "raw":
			name, quoted, _ := strings.Cut(rest, " ")
			data, err := strconv.Unquote(quoted)
			if err != nil {
				return fmt.Errorf("raw %s: %w", name, err)
			}
			if err := c.write(name, []byte(data)); err != nil {
				return err
			}
		case "link":
			name, target, _ := strings.Cut(rest, " ")
			name = filepath.Join(c.dir, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Symlink(target, name)); err != nil {
				return err
			}
		case "recipe":
			c.recipe = true
		case "show":
			c.show = append(c.show, rest)
		case "untrusted":
			c.opt.Untrusted = true
		case "unvalued":
			c.opt.Unvalued = true
		case "offline":
			c.opt.Offline = true
		case "bundle":
			c.opt.Bundle = &plan.Bundle{Root: c.dir, Own: filepath.Join(c.dir, "own"), File: bundledFile,
				Image: func(name, os, arch string) steps.Source {
					return steps.Source{File: bundledFile(steps.Source{File: os + "-" + arch + "-" + name}),
						SHA256: strings.Repeat("d", 64)}
				}}
		case "noagent":
			c.opt.Agent = nil
		case "brokenagent":
			c.opt.Agent = func(os, arch, _ string) (steps.Source, error) {
				return steps.Source{}, fmt.Errorf("no compiler for %s/%s", os, arch)
			}
		case "stoppedagent":
			c.opt.Agent = func(string, string, string) (steps.Source, error) {
				return steps.Source{}, fmt.Errorf("list the files: %w", context.Canceled)
			}
		default:
			return fmt.Errorf("unknown directive %q", in.Text())
		}
	}
	return in.Err()
}

// run loads and compiles a case, and returns the result as text.
func (c *corpusCase) run() (text string, valid bool) {
	p, list := plan.Load(c.path, c.opt)
	var out *plan.Compiled
	if !list.HasErrors() {
		var more hcl.Diagnostics
		out, more = p.Compile()
		list = append(list, more...)
	}
	var b strings.Builder
	for _, d := range list {
		b.WriteString(c.diagnostic(d))
	}
	if out != nil {
		writeCompiled(&b, out, c.recipe)
		for _, n := range out.Nodes {
			for _, s := range n.Steps {
				if slices.Contains(c.show, s.ID) {
					writeStep(&b, n.Name, s)
				}
			}
		}
	}
	text = strings.ReplaceAll(b.String(), c.dir+string(filepath.Separator), "$DIR/")
	return strings.ReplaceAll(text, c.dir, "$DIR"), !list.HasErrors()
}

func (c *corpusCase) diagnostic(d *hcl.Diagnostic) string {
	severity := "error"
	if d.Severity == hcl.DiagWarning {
		severity = "warning"
	}
	at := "-"
	if r := d.Subject; r != nil {
		name := r.Filename
		if rel, err := filepath.Rel(c.dir, name); err == nil {
			name = filepath.ToSlash(rel)
		}
		at = fmt.Sprintf("%s:%d,%d-%d,%d", name, r.Start.Line, r.Start.Column, r.End.Line, r.End.Column)
	}
	detail := strings.ReplaceAll(d.Detail, "\n", "\\n")
	return fmt.Sprintf("%s: %s: %s: %s\n", at, severity, d.Summary, detail)
}

// writeCompiled shows every node with its steps in order. It shows steps of step
// blocks with their arguments. If the case wants the recipe's steps, it shows only
// their names, because the recipe's own tests cover them.
func writeCompiled(b *strings.Builder, out *plan.Compiled, recipe bool) {
	if k := out.Cluster; k != nil {
		fmt.Fprintf(b, "cluster %s %s %s pods %s\n", k.Name, k.Version, k.APIServer, k.PodCIDR)
		optional(b, "kubeconfig", k.Kubeconfig)
		optional(b, "sandbox", k.Sandbox)
		optional(b, "ca_hash", k.CAHash)
		if r := out.Rollout; !reflect.DeepEqual(r, plan.Rollout{MaxUnavailable: 1, MaxFailures: 1}) {
			fmt.Fprintf(b, "  rollout %+v\n", r)
		}
		for _, from := range slices.Sorted(maps.Keys(out.Moved)) {
			fmt.Fprintf(b, "  moved %s to %s\n", from, out.Moved[from])
		}
	}
	for _, o := range out.Outputs {
		value := string(o.Value)
		switch {
		case o.Sensitive:
			value = "(sensitive)"
		case o.Value == nil:
			value = "(not known)"
		}
		fmt.Fprintf(b, "output %s = %s", o.Name, value)
		if o.Description != "" {
			fmt.Fprintf(b, " # %s", o.Description)
		}
		b.WriteByte('\n')
	}
	for _, d := range out.Data {
		fmt.Fprintf(b, "data %s from %s at %s\n", d.Address, d.From, d.Source)
		optional(b, "sha256", d.SHA256)
	}
	for _, u := range out.Unread {
		fmt.Fprintf(b, "not read %s\n", u)
	}
	for _, m := range out.Manifests {
		fmt.Fprintf(b, "manifest %s at %s\n    %s\n", m.Name, m.Source, strings.ReplaceAll(strings.TrimSpace(m.Content),
			"\n", "\n    "))
	}
	for _, n := range out.Nodes {
		fmt.Fprintf(b, "node %s %s/%s %s at %s\n", n.Address, n.OS, n.Arch, n.Connection.Type, n.Source)
		if n.OnFailure != "" {
			fmt.Fprintf(b, "  on failure %s\n", n.OnFailure)
		}
		optional(b, "data_dir", n.DataDir)
		if n.Connection.SSH != nil {
			optional(b, "ssh", compact(n.Connection.SSH))
		}
		if n.Connection.WinRM != nil {
			optional(b, "winrm", compact(n.Connection.WinRM))
		}
		if n.Connection.Sandbox != nil {
			optional(b, "sandbox", compact(n.Connection.Sandbox))
		}
		for _, s := range n.Steps {
			if s.Source == n.Source && !recipe && !s.Keep {
				continue
			}
			fmt.Fprintf(b, "    %s %s", s.Kind, s.ID)
			if len(s.After) > 0 {
				fmt.Fprintf(b, " after %s", strings.Join(s.After, " "))
			}
			if s.Timeout != 0 {
				fmt.Fprintf(b, " timeout %s", s.Timeout)
			}
			b.WriteByte('\n')
			if s.Source != n.Source {
				fmt.Fprintf(b, "        %s %q %s\n", s.Source, s.Title, s.Args.JSON())
			}
			if s.Keep {
				fmt.Fprintf(b, "        keep\n")
			}
			if s.Source != n.Source && s.Retries != 0 {
				fmt.Fprintf(b, "        retries %d\n", s.Retries)
			}
		}
	}
}

// writeStep shows the text that a step writes, the command that it runs, or else
// its arguments.
func writeStep(b *strings.Builder, node string, s steps.Spec) {
	fmt.Fprintf(b, "%s of %s:\n", s.ID, node)
	var args struct {
		Content     string   `json:"content"`
		Command     []string `json:"command"`
		Environment []string `json:"environment"`
		Parameters  []kinds.ServiceParameter
	}
	if err := json.Unmarshal(s.Args.JSON(), &args); err != nil {
		panic(err)
	}
	lines := args.Command
	switch {
	case args.Content != "":
		lines = strings.Split(strings.TrimSuffix(args.Content, "\n"), "\n")
	case len(lines) == 0:
		lines = []string{string(s.Args.JSON())}
	}
	for _, v := range args.Environment {
		lines = append(lines, "environment "+v)
	}
	for _, p := range args.Parameters {
		lines = append(lines, "parameter "+compact(p))
	}
	for _, l := range lines {
		fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(l, "\x00", "␀"))
	}
}

func optional(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, "  %s %s\n", name, value)
	}
}

func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}
