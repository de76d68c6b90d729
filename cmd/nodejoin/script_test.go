package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/steps/host/hosttest"
	"nodejoin/steps/host/sandbox"
)

func TestMain(m *testing.M) {
	hosttest.InMemory()
	testscript.Main(m, map[string]func(){"nodejoin": mainSeen, "nodejoin-leaks": mainLeaks})
}

// updateScripts rewrites the expected outputs of scripts, and numbers on pages.
var updateScripts = os.Getenv("UPDATE_SCRIPTS") != ""

// mainLeaks is main, but fails if a goroutine is left when it ends.
func mainLeaks() {
	if began := os.Getenv(beganEnv); began != "" {
		if err := os.WriteFile(began, nil, 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	code := run(os.Args[1:])
	if err := goleak.Find(goleak.IgnoreAnyFunction("os/signal.signal_recv")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = exitLeak
	}
	os.Exit(code)
}

const exitLeak = 97

// beganEnv names a file that mainLeaks writes first.
const beganEnv = "NODEJOIN_BEGAN"

// TestScript runs the command line as a user does: testdata/script/*.txtar, one
// idea each. Each has the examples quickstart, host-gw and kubeadm in $WORK. UPDATE_SCRIPTS=1
// rewrites the expected outputs (cmp).
func TestScript(t *testing.T) {
	testscript.Run(t, scriptParams("testdata/script"))
}

// scriptParams are the parameters that scripts run with.
func scriptParams(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       updateScripts,
		Setup:               setup,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":       cmdExit,
			"jsonlines":  cmdJSONLines,
			"edit":       cmdEdit,
			"waitfile":   cmdWaitFile,
			"waittext":   cmdWaitText,
			"sshd":       cmdSSHD,
			"api":        cmdAPI,
			"silentapi":  cmdSilentAPI,
			"within":     cmdWithin,
			"closedport": cmdClosedPort,
			"filesteps":  cmdFileSteps,
			"upstream":   cmdUpstream,
			"registry":   cmdRegistry,
			"pushimage":  cmdPushImage,
			"pushmodule": cmdPushModule,
			"push":       cmdPush,
			"sshkey":     cmdSSHKey,
			"cosign":     cmdCosign,
			"narrow":     cmdNarrow,
			"latest":     cmdLatest,
			"drift":      cmdDrift,
			"unzip":      cmdUnzip,
		},
	}
}

// setup gives every script the examples, its own home folder, no colour and no ssh-agent.
func setup(e *testscript.Env) error {
	if err := seeSecrets(e); err != nil {
		return err
	}
	repository, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	e.Vars = append(e.Vars, []string{"REPOSITORY=" + repository, "HOME=" + e.WorkDir, "USERPROFILE=" + e.WorkDir,
		"XDG_CACHE_HOME=" + filepath.Join(e.WorkDir, ".cache"),
		"LocalAppData=" + filepath.Join(e.WorkDir, ".cache"), "SSH_AUTH_SOCK=", "TERM=xterm-256color"}...)
	for _, example := range []string{"quickstart", "host-gw", "kubeadm"} {
		if err := copyExample(os.DirFS("../../examples/"+example), filepath.Join(e.WorkDir, example)); err != nil {
			return err
		}
	}
	return nil
}

func copyExample(from fs.FS, to string) error {
	return fs.WalkDir(from, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == ".sandbox":
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, p), 0o777)
		case strings.HasSuffix(p, ".go"):
			return nil
		}
		b, err := fs.ReadFile(from, p)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, p), b, 0o666)
	})
}

// cmdExit runs a command that must end with a code: exit 2 nodejoin plan ...
func cmdExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	have := "0"
	if e, ok := err.(interface{ ExitCode() int }); ok {
		have = fmt.Sprint(e.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if have != args[0] {
		ts.Fatalf("exit code: have %s, want %s", have, args[0])
	}
}

// cmdWithin is cmdExit for a command that must end in time: within 30s CODE COMMAND [ARG...]
func cmdWithin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: within DURATION CODE COMMAND [ARG...]")
	}
	bound, err := time.ParseDuration(args[0])
	ts.Check(err)
	began := time.Now()
	cmdExit(ts, false, args[1:])
	if took := time.Since(began); took > bound {
		ts.Fatalf("it took %s, more than %s", took, bound)
	}
}

// cmdJSONLines checks that every line of a file is an object with a type, and the last
// one the summary with this exit code and this number of mutations:
// jsonlines stdout CODE [MUTATIONS]
func cmdJSONLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: jsonlines FILE CODE [MUTATIONS]")
	}
	type object struct {
		Type     string `json:"type"`
		ExitCode int    `json:"exit_code"`
		Hosts    []struct {
			Mutations int64 `json:"mutations"`
		} `json:"hosts"`
	}
	var last object
	for i, l := range strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n") {
		last = object{}
		if err := json.Unmarshal([]byte(l), &last); err != nil || last.Type == "" {
			ts.Fatalf("line %d is not an object with a type (%v): %s", i+1, err, l)
		}
		if (i == 0) != (last.Type == "version") {
			ts.Fatalf("line %d has type %s; only the first line has the version", i+1, last.Type)
		}
	}
	if last.Type != "summary" || fmt.Sprint(last.ExitCode) != args[1] {
		ts.Fatalf("last line: have type %s, exit code %d; want summary, %s", last.Type, last.ExitCode, args[1])
	}
	if len(args) > 2 {
		var sum int64
		for _, h := range last.Hosts {
			sum += h.Mutations
		}
		if fmt.Sprint(sum) != args[2] {
			ts.Fatalf("mutating calls: have %d, want %s", sum, args[2])
		}
	}
}

// cmdEdit replaces all occurrences of a text in a file: edit FILE OLD NEW
func cmdEdit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	if !bytes.Contains(b, []byte(args[1])) {
		ts.Fatalf("%s does not contain %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(path, bytes.ReplaceAll(b, []byte(args[1]), []byte(args[2])), 0o666))
}

// cmdFileSteps writes a plan file with so many steps that each make a file on a Linux node.
func cmdFileSteps(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: filesteps FILE NODE COUNT")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	text := ""
	for i := range n {
		text += fmt.Sprintf("step \"file\" \"many_%d\" {\n  on = node.%s\n", i, args[1])
		text += fmt.Sprintf("  path = \"/srv/many-%d\"\n  content = \"x\"\n}\n", i)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}

// cmdWaitFile waits until a file exists, at most 20 s.
func cmdWaitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfile FILE")
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s did not appear", args[0])
		}
	}
}

// cmdWaitText waits until a file contains a text, at most a minute: waittext FILE TEXT
func cmdWaitText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waittext FILE TEXT")
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if b, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && bytes.Contains(b, []byte(args[1])) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s never contained %s", args[0], args[1])
		}
	}
}

// cmdLatest sets RUN to the newest run of a plan: latest PLAN
func cmdLatest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: latest PLAN")
	}
	ts.Check(ts.Exec("nodejoin", "history", "--json", args[0]))
	var runs []jsonout.Run
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &runs))
	if len(runs) == 0 {
		ts.Fatalf("the history has no run of %s", args[0])
	}
	ts.Setenv("RUN", runs[0].Run)
}

// cmdNarrow checks that no line of a file is longer than a number of columns: narrow FILE COLUMNS
func cmdNarrow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: narrow FILE COLUMNS")
	}
	var most int
	_, err := fmt.Sscan(args[1], &most)
	ts.Check(err)
	for i, l := range strings.Split(ts.ReadFile(args[0]), "\n") {
		if n := len([]rune(l)); n > most {
			ts.Fatalf("line %d has %d columns: %s", i+1, n, l)
		}
	}
}

// cmdDrift changes a simulated machine or its cluster behind nodejoin's back:
// drift FOLDER CLUSTER stop|restart|repoint|unrule|unnetwork|untaint|unnode NAME
func cmdDrift(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: drift FOLDER CLUSTER stop|restart|repoint|unrule|unnetwork|untaint|unnode NAME")
	}
	ctx, name := context.Background(), args[3]
	h, err := sandbox.Open(context.Background(), sandbox.Config{Path: ts.MkAbs(args[0]), ClusterDir: ts.MkAbs(args[1])})
	ts.Check(err)
	switch args[2] {
	case "stop":
		ts.Check(h.StopService(ctx, name))
	case "restart":
		dependents, err := h.Dependents(ctx, name)
		ts.Check(err)
		for _, d := range append(dependents, name) {
			ts.Check(h.StopService(ctx, d))
		}
		ts.Check(h.StartService(ctx, name))
		for _, d := range slices.Backward(dependents) {
			ts.Check(h.StartService(ctx, d))
		}
	case "unnode":
		k, err := sandbox.OpenCluster(context.Background(), sandbox.ClusterConfig{Dir: ts.MkAbs(args[1])})
		ts.Check(err)
		n, err := k.Node(ctx, name)
		ts.Check(err)
		ts.Check(k.DeleteNode(ctx, name, n.UID))
	case "repoint":
		s, err := h.Service(ctx, name)
		ts.Check(err)
		s.Command[len(s.Command)-1] += "-other"
		ts.Check(h.UpdateService(ctx, s.ServiceConfig))
	case "unrule":
		_, err := h.FirewallRule(ctx, name)
		ts.Check(err)
		ts.Check(h.DeleteFirewallRule(ctx, name))
	case "unnetwork":
		ts.Check(h.DeleteHNSNetwork(ctx, name))
	case "untaint":
		k, err := sandbox.OpenCluster(context.Background(), sandbox.ClusterConfig{Dir: ts.MkAbs(args[1])})
		ts.Check(err)
		n, err := k.Node(ctx, name)
		ts.Check(err)
		if len(n.Taints) == 0 {
			ts.Fatalf("%s has no taint", name)
		}
		ts.Check(k.SetTaints(ctx, name, nil, n.Taints))
	default:
		ts.Fatalf("no drift %q", args[2])
	}
}
