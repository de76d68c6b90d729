package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/resume"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/doctor"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/node"
)

// resumePlan has two sandboxes that stand in for machines with a local connection.
const resumePlan = `
variable "word" {
  type      = string
  sensitive = true
  default   = "none"
}
variable "text" {
  type    = string
  default = "x"
}
node "win" {
  for_each = toset(["win-1", "win-2"])
  name     = each.key
  os       = "windows"
  connection "sandbox" { path = ".sandbox/${each.key}" }
}
step "file" "text" {
  on      = node.win
  path    = "C:\\k\\text"
  content = "${var.text} EXTRA"
}
`

// ownMachine is a machine whose service is this process.
type ownMachine struct {
	*sandbox.Host
	deleted []string
}

func (m *ownMachine) DeleteOwnService(_ context.Context, name string) error {
	m.deleted = append(m.deleted, name)
	return nil
}

// resumed is a plan to finish on win-1, and the service that finishes it.
type resumed struct {
	*resume.Run
	t       *testing.T
	machine *ownMachine
	dir     string
	out     bytes.Buffer
	reports []string
}

func planDir(t *testing.T, text string) string {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.join.hcl"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newResumed(t *testing.T, flags ...string) *resumed {
	t.Helper()
	return resumedIn(t, planDir(t, resumePlan), &app{vars: flags})
}

// resumedIn is the state that an apply of the plan in dir leaves.
func resumedIn(t *testing.T, dir string, a *app) *resumed {
	t.Helper()
	r := &resumed{t: t, dir: dir}
	a.term = &ui.Term{Out: &r.out, Err: &r.out}
	what, err := a.resumption(t.Context(), []string{r.dir}, plan.Node{Name: "win-1", Address: "node.win-1"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	r.machine = &ownMachine{Host: h}
	text, err := what.Text()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "resume.json") // the sandbox's own files are elsewhere
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Run = &resume.Run{Machine: files{r.machine, file}, Path: file, Apply: applyAgain(execute, &r.out),
		Pause:  time.Millisecond,
		Say:    func(line string) { r.out.WriteString(line + "\n") },
		Report: func(l node.Level, text string) { r.reports = append(r.reports, text) }}
	return r
}

// files is a machine with one file, which is on this computer.
type files struct {
	*ownMachine
	file string
}

func (f files) WriteFile(ctx context.Context, path string, r io.Reader, opt host.WriteOptions) error {
	if path != f.file {
		return f.ownMachine.WriteFile(ctx, path, r, opt)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

func (f files) Remove(ctx context.Context, path string) error {
	if path != f.file {
		return f.ownMachine.Remove(ctx, path)
	}
	return os.Remove(path)
}

// over checks that the file and the service are gone, and checks the reports.
func (r *resumed) over(want string) {
	r.t.Helper()
	if _, err := os.Stat(r.Path); !errors.Is(err, fs.ErrNotExist) ||
		!slices.Equal(r.machine.deleted, []string{doctor.ResumeService}) {
		r.t.Errorf("the file: %v; services deleted: %q", err, r.machine.deleted)
	}
	if len(r.reports) != 1 || !strings.Contains(r.reports[0], want) {
		r.t.Errorf("reported %q, want %q\n%s", r.reports, want, r.out.String())
	}
}

func (r *resumed) text(node string) string {
	b, _ := os.ReadFile(filepath.Join(r.dir, ".sandbox", node, "C", "k", "text"))
	return string(b)
}

// TestResume: the service finishes the plan for its node only, with the values of the
// apply, and then removes itself.
func TestResume(t *testing.T) {
	r := newResumed(t, "text=given")
	if err := r.Do(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, r.out.String())
	}
	if r.text("win-1") != "given EXTRA" || r.text("win-2") != "" {
		t.Errorf("win-1 has %q, win-2 %q", r.text("win-1"), r.text("win-2"))
	}
	r.over("finished on node win-1")
	runs := &bytes.Buffer{}
	if code := execute(t.Context(), &app{term: &ui.Term{Out: runs, Err: runs}},
		[]string{"history", r.dir}); code != exitOK || !strings.Contains(runs.String(), "resume") {
		t.Errorf("history: %d\n%s", code, runs)
	}
}

// TestResumeEnds: the service gives up on a plan that has changed, a plan that fails, and
// a machine that keeps rebooting. It does not give up on a run that is stopped.
func TestResumeEnds(t *testing.T) {
	t.Run("changed", func(t *testing.T) {
		r := newResumed(t)
		if err := os.WriteFile(filepath.Join(r.dir, "a.join.hcl"), []byte(strings.ReplaceAll(resumePlan, "EXTRA", "other")),
			0o644); err != nil {
			t.Fatal(err)
		}
		if err := r.Do(t.Context()); err == nil || r.text("win-1") != "" ||
			!strings.Contains(r.out.String(), "the plan has changed") {
			t.Errorf("%v, %q\n%s", err, r.text("win-1"), r.out.String())
		}
		r.over("not finished")
	})
	t.Run("fails", func(t *testing.T) {
		r := newResumed(t)
		if err := os.MkdirAll(filepath.Join(r.dir, ".sandbox", "win-1", "C", "k", "text"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := r.Do(t.Context()); err == nil || strings.Contains(r.out.String(), "next try") {
			t.Errorf("%v\n%s", err, r.out.String())
		}
		r.over("not finished")
	})
	t.Run("not to be read", func(t *testing.T) {
		r := newResumed(t)
		if err := os.WriteFile(r.Path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.Do(t.Context()); err == nil {
			t.Error("it counts as done")
		}
		r.over("not finished")
	})
	t.Run("stopped", func(t *testing.T) {
		r := newResumed(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for n := 1; n <= resume.MaxStarts; n++ {
			if err := r.Do(ctx); err == nil {
				t.Fatal("a run that is stopped has finished")
			}
			what, err := resume.Read(r.Path)
			if err != nil || what.Starts != n || len(r.machine.deleted) > 0 {
				t.Fatalf("start %d: %+v, %v, deleted %q", n, what, err, r.machine.deleted)
			}
		}
		if err := r.Do(t.Context()); err == nil || r.text("win-1") != "" {
			t.Errorf("tried once more: %v, %q", err, r.text("win-1"))
		}
		r.over("booted 4 times")
	})
}

// starting is a machine whose network is not up yet for the first few calls.
type starting struct {
	connect.Machine
	asked, errors int
}

func (s *starting) Adapters(ctx context.Context) ([]host.Adapter, error) {
	if s.asked++; s.asked <= s.errors {
		return nil, errors.New("getadaptersaddresses: File not found")
	}
	return s.Machine.Adapters(ctx)
}

// TestResumeWaitsForTheMachine: errors of a machine that is still starting do not end the run. A machine
// that never gets ready is left to the next boot.
func TestResumeWaitsForTheMachine(t *testing.T) {
	r := newResumed(t, "text=given")
	r.Machine = &starting{Machine: r.Machine, errors: 3}
	if err := r.Do(t.Context()); err != nil || r.text("win-1") != "given EXTRA" ||
		strings.Count(r.out.String(), "waiting for the machine to finish starting: getadaptersaddresses") != 1 {
		t.Fatalf("%v\n%s", err, r.out.String())
	}
	r.over("finished on node win-1")

	r = newResumed(t)
	r.Machine = &starting{Machine: r.Machine, errors: 1 << 30}
	if err := r.Do(t.Context()); !errors.Is(err, resume.ErrStarting) || r.text("win-1") != "" {
		t.Fatalf("%v\n%s", err, r.out.String())
	}
	if _, err := resume.Read(r.Path); err != nil || len(r.machine.deleted) > 0 ||
		len(r.reports) != 1 || !strings.Contains(r.reports[0], "continues after the next boot") {
		t.Errorf("%v, deleted %q, reported %q", err, r.machine.deleted, r.reports)
	}
}

// TestResumeAgain: a plan with two reboots finishes after the second; there is no third.
// The service stays until then, and only its file changes.
func TestResumeAgain(t *testing.T) {
	r := newResumed(t)
	first, err := resume.Read(r.Path)
	if err != nil || first.Reboots != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	facts, err := r.machine.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first.Starts = 2
	a := &app{resumed: first}
	node := plan.Node{Name: "win-1", Address: "node.win-1",
		Steps: []steps.Spec{{ID: "reboot_first", Kind: "reboot"}, {ID: "reboot", Kind: "reboot"}}}
	again, err := a.resumeAgain(node, facts)
	if err != nil || len(again.Steps) != 1 || again.Service != doctor.ResumeService {
		t.Fatalf("%+v, %v", again, err)
	}
	var file kinds.File
	if err := json.Unmarshal(again.Steps[0].Args.JSON(), &file); err != nil || file.Access != host.AccessPrivate {
		t.Fatalf("%+v, %v", file, err)
	}
	rebooting := func(text string) func(context.Context, *resume.File) (int, resume.Outcome) {
		return func(context.Context, *resume.File) (int, resume.Outcome) {
			if err := os.WriteFile(r.Path, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
			return exitReboot, resume.Rebooting
		}
	}
	apply := r.Apply
	r.Apply = rebooting(file.Content)
	if err := r.Do(t.Context()); err != nil || len(r.machine.deleted) > 0 {
		t.Fatalf("%v; services deleted: %q", err, r.machine.deleted)
	}
	next, err := resume.Read(r.Path)
	if err != nil || next.Reboots != 2 || next.Starts != 0 {
		t.Fatalf("%+v, %v", next, err)
	}
	a.resumed = next
	if _, err := a.resumeAgain(node, facts); err == nil {
		t.Error("a third reboot")
	}
	r.Apply = apply
	if err := r.Do(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, r.out.String())
	}
	r.over("finished on node win-1")

	r = newResumed(t)
	text, err := first.Text()
	if err != nil {
		t.Fatal(err)
	}
	r.Apply = rebooting(text) // a pending reboot that the plan did not cause
	if err := r.Do(t.Context()); err == nil {
		t.Error("it continues without a reboot")
	}
	r.over("exit code 6")
}

// TestResumeNeeds: if only this run has some values, the error names them and there is no
// reboot. Files and folders are not such values.
func TestResumeNeeds(t *testing.T) {
	t.Setenv("NODEJOIN_TEST_WORD", "secret-1")
	for name, c := range map[string]struct {
		add  string
		vars []string
		env  string
		want string
	}{
		"nothing":      {},
		"value":        {vars: []string{"text=y"}},
		"function":     {add: "\nlocals { a = env(\"NODEJOIN_TEST_WORD\") }\n", want: "NODEJOIN_TEST_WORD"},
		"folder":       {add: "\nlocals { a = env(\"HOME\") }\n"},
		"secret value": {vars: []string{"word=secret-2"}, want: "--var word"},
		"variable":     {env: "NODEJOIN_VAR_text", want: "NODEJOIN_VAR_text"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv(c.env, "secret-3")
			}
			var out bytes.Buffer
			a := &app{term: &ui.Term{Out: &out, Err: &out}, vars: c.vars}
			dir := planDir(t, strings.ReplaceAll(resumePlan, "EXTRA", "${var.word == \"\" ? \"\" : \"z\"}")+c.add)
			r, err := a.resumption(t.Context(), []string{dir}, plan.Node{Name: "win-1", Address: "node.win-1"})
			if (err == nil) != (c.want == "") || err != nil &&
				(!strings.Contains(err.Error(), "only from this run: "+c.want+".") || strings.Contains(err.Error(), "secret-")) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if b, _ := json.Marshal(r); strings.Contains(string(b), "secret-") {
				t.Errorf("a secret is stored: %s", b)
			}
		})
	}
}

// TestResumeSteps: other users have no access to the files that apply puts on a machine,
// and a leave deletes all of them.
func TestResumeSteps(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nodejoin")
	if err := os.WriteFile(program, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, goos := range []string{"windows", "linux"} {
		h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(), OS: goos})
		if err != nil {
			t.Fatal(err)
		}
		f, err := h.Facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := resume.Steps(f, steps.Source{File: program, SHA256: sha256Hex([]byte("program"))}, "{}\n")
		applySteps(t, h, r.Steps)
		svc, err := h.Service(t.Context(), doctor.ResumeService)
		if err != nil || svc.State != host.ServiceStopped || svc.Start != host.StartAuto || len(svc.Command) != 3 ||
			svc.Command[1] != "resume" {
			t.Fatalf("%s: %+v, %v", goos, svc, err)
		}
		for _, path := range []string{svc.Command[2], host.Dir(goos, svc.Command[0]), host.Dir(goos, r.Log)} {
			if fi, err := h.Stat(t.Context(), path); err != nil || fi.Access != host.AccessPrivate {
				t.Errorf("%s: %+v, %v", path, fi, err)
			}
		}
		leaveAll(t, h)
		for _, path := range []string{f.DataDir, host.Dir(goos, r.Log)} {
			if _, err := h.Stat(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("leave has left %s: %v", path, err)
			}
		}
	}
}

func applySteps(t *testing.T, h host.Host, list []steps.Spec) {
	t.Helper()
	x := executor.NewExecutor(kinds.Catalog(), h, artifact.New(artifact.Options{Direct: true}), func(event.Event) {})
	reply, err := x.Apply(t.Context(), executor.Request{Node: "n", Steps: list})
	if err == nil && reply.Err != nil {
		err = reply.Err
	}
	if err != nil {
		t.Fatal(err)
	}
}

func leaveAll(t *testing.T, h host.Host) {
	t.Helper()
	x := executor.NewExecutor(kinds.Catalog(), h, artifact.New(artifact.Options{}), func(event.Event) {})
	reply, err := x.Leave(t.Context(), executor.LeaveRequest{Node: "n"})
	if err == nil && reply.Err != nil {
		err = reply.Err
	}
	if err == nil {
		var f executor.ForgetReply
		if f, err = x.Forget(t.Context(), executor.LeaveRequest{Node: "n"}); len(f.Left) > 0 {
			t.Errorf("left: %q", f.Left)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
