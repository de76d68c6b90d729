package kinds_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// TestRemovalOfPlans: what a plan no longer names is removed once. What another plan of the machine has, or no plan,
// stays.
func TestRemovalOfPlans(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	plan := func(plan string, names ...string) {
		t.Helper()
		var list []steps.Spec
		for _, n := range names {
			list = append(list, value(n, 1))
		}
		_, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, plan, list)
		stepstest.Must(t, err)
	}
	there := func(want ...string) {
		t.Helper()
		for _, name := range []string{"a", "b", "c", "d"} {
			_, err := h.RegistryValue(t.Context(), `HKLM\SOFTWARE\Test`, name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if wanted := slices.Contains(want, name); wanted != (err == nil) {
				t.Errorf("value %s is there: %v, want %v", name, err == nil, wanted)
			}
		}
	}
	plan("one", "a", "b")
	plan("two", "b", "c")
	stepstest.Applied(t, h, stepstest.Memory{}, []steps.Spec{value("d", 1)}) // of no plan
	there("a", "b", "c", "d")
	plan("one")
	there("b", "c", "d")

	// Somebody has set it since, so it no longer belongs to the plan.
	set := func(n uint64) {
		stepstest.Must(t, h.SetRegistryValue(t.Context(), `HKLM\SOFTWARE\Test`, "a", host.RegistryValue{Type: "dword",
			Number: n}))
	}
	set(5)
	plan("one")
	there("a", "b", "c", "d")

	// If the plan names it again, what is restored later is what was there then.
	plan("one", "a")
	plan("one")
	if v, err := h.RegistryValue(t.Context(), `HKLM\SOFTWARE\Test`, "a"); err != nil || v.Number != 5 {
		t.Errorf("value a: %v, %v", v, err)
	}
}

// TestUntilLeave: what a step makes "until leave" is removed only by a leave, like the rule that keeps SSH reachable:
// a run on the machine itself has no step for it, and must not cut off the next run from elsewhere.
func TestUntilLeave(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	rule := stepstest.Spec("firewall_rule", "rule", &kinds.FirewallRule{FirewallRule: host.FirewallRule{
		Name: "nodejoin-ssh", Direction: "in", Action: "allow", Protocol: "tcp", Ports: "22", Enabled: true}})
	rule.UntilLeave = true
	for _, list := range [][]steps.Spec{{rule, value("a", 1)}, {value("a", 1)}} {
		r, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", list)
		stepstest.Must(t, err)
		if r.Removals.Pending() > 0 {
			t.Errorf("%+v", r.Removals)
		}
	}
	if _, err := h.FirewallRule(t.Context(), "nodejoin-ssh"); err != nil {
		t.Error(err)
	}
	stepstest.Must(t, left(t, h))
	if _, err := h.FirewallRule(t.Context(), "nodejoin-ssh"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after leave: %v", err)
	}
}

func value(name string, n uint64) steps.Spec {
	return stepstest.Spec("registry", name, &kinds.Registry{Key: `HKLM\SOFTWARE\Test`, Name: name,
		RegistryValue: host.RegistryValue{Type: "dword", Number: n}})
}

// What was changed since nodejoin made it is shown and kept, unless the run is told to remove it. What the plan keeps
// is forgotten.
func TestRemovalOfChanged(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	file := func(name string, keep bool) steps.Spec {
		s := stepstest.Spec("file", name, &kinds.File{Path: `C:\k\` + name, Content: "ours"})
		s.Keep = keep
		return s
	}
	plan := func(list ...steps.Spec) executor.Removals {
		t.Helper()
		r, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", list)
		stepstest.Must(t, err)
		return r.Removals
	}
	there := func(name string, want bool) {
		t.Helper()
		if have, err := host.Exists(t.Context(), h, `C:\k\`+name); err != nil || have != want {
			t.Errorf("%s is there: %v, %v; want %v", name, have, err, want)
		}
	}
	plan(file("a", false), file("b", true), file("c", false))
	stepstest.Put(t, h, `C:\k\a`, "theirs")
	found := plan(file("c", false))
	if len(found.Items) != 2 || !strings.Contains(found.Items[0].Left, "was changed since") || found.Pending() != 1 {
		t.Errorf("the change is not shown: %+v", found)
	}
	there("a", true)
	there("b", true)
	x := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {})
	r, err := x.Remove(t.Context(), executor.RemoveRequest{Request: executor.Request{Node: "n", Plan: "p",
		Steps: []steps.Spec{file("c", false)}, PruneChanged: true}})
	stepstest.Must(t, err)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	there("a", false)
	there("b", true)
	there("c", true)
}

// What a step with keep made stays when the plan drops the step. plan says so once; after that neither plan nor leave
// knows it.
func TestKeptIsForgotten(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	kept := stepstest.Spec("file", "kept", &kinds.File{Path: `C:\kept`, Content: "ours"})
	kept.Keep = true
	plan := func(list ...steps.Spec) (out []string) {
		t.Helper()
		r, err := stepstest.Plan(t.Context(), h, stepstest.Memory{}, "p", list)
		stepstest.Must(t, err)
		for _, i := range r.Removals.Removing() {
			out = append(out, string(i.Change.Action)+" "+i.Key.String())
		}
		return out
	}
	for i, s := range []struct{ list []steps.Spec }{{[]steps.Spec{kept, value("a", 1)}}, {[]steps.Spec{value("a", 1)}},
		{[]steps.Spec{value("a", 1)}}} {
		want := [][]string{nil, {`forget file:C:\kept`}, nil}[i]
		if have := plan(s.list...); !slices.Equal(have, want) {
			t.Errorf("plan %d: %q, want %q", i+1, have, want)
		}
	}
	stepstest.Must(t, left(t, h))
	if there, err := host.Exists(t.Context(), h, `C:\kept`); err != nil || !there {
		t.Errorf("after the leave it is there: %v, %v", there, err)
	}
}

// A step protects everything that it claims: no plan removes what its own steps make.
func TestNothingOfItsOwnIsRemoved(t *testing.T) {
	all, art := scenarios(t)
	for _, s := range all {
		if s.before != nil && !slices.EqualFunc(s.before, s.list, func(a, b steps.Spec) bool {
			return a.ID == b.ID && a.Args.Equal(b.Args)
		}) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			h := s.open(t, art)
			stepstest.Applied(t, h, art, s.list)
			reply, err := executor.NewExecutor(kinds.Catalog(), h, art, func(event.Event) {}).Check(t.Context(),
				executor.Request{Node: "win-1", Plan: "p", Whole: true, Steps: s.list})
			stepstest.Must(t, err)
			for _, r := range reply.Removals.Items {
				t.Errorf("%s would go: %+v", r.Key, r)
			}
		})
	}
}

// transition is a machine that changes from one plan to another.
type transition struct {
	name     string
	os       string
	from, to []steps.Spec
}

func transitions(t *testing.T) ([]transition, stepstest.Memory) {
	tgz1 := stepstest.Tarball(t, "bin/containerd.exe", "c1", "bin/old.exe", "o")
	tgz2 := stepstest.Tarball(t, "bin/containerd.exe", "c2", "bin/new.exe", "n")
	art := stepstest.Memory{"http://m/1.tgz": tgz1, "http://m/2.tgz": tgz2}
	archive := func(b []byte, url string) steps.Spec {
		return stepstest.Spec("archive", "unpack",
			&kinds.Archive{Source: steps.Source{URL: url, SHA256: stepstest.Hex256(b)},
				To: `C:\c`, Strip: 1, Services: []string{"containerd"}})
	}
	file := func(id, path string) steps.Spec {
		return stepstest.Spec("file", id, &kinds.File{Path: path, Content: id})
	}
	service := func(name string, change func(*kinds.Service)) steps.Spec {
		s := stepstest.Service(name, `C:\k\`+name+`.exe`)
		if change != nil {
			change(s)
		}
		return stepstest.Spec("service", name, s)
	}
	ports := func(first, last uint16) steps.Spec {
		return stepstest.Spec("reserved_ports", "ports", &kinds.ReservedPorts{Protocol: "tcp", First: first, Last: last})
	}
	rule := stepstest.Spec("firewall_rule", "rule",
		&kinds.FirewallRule{FirewallRule: host.FirewallRule{Name: "nodejoin-x",
			Direction: "in", Action: "allow", Protocol: "tcp", Ports: "9182", Enabled: true}})
	nssm := service("worker", func(s *kinds.Service) {
		s.Command = []string{`C:\k\nssm.exe`}
		s.Parameters = []kinds.ServiceParameter{{Name: "Application", Type: "expand_string", String: `C:\k\worker.exe`}}
	})
	env := stepstest.Spec("env", "proxy", &kinds.MachineEnv{Name: "HTTP_PROXY", Value: "http://p"})
	return []transition{
		{"a service and all of its own", "windows",
			[]steps.Spec{file("worker_exe", `C:\k\worker.exe`), file("app_exe", `C:\x\y\app.exe`), rule,
				service("worker", func(s *kinds.Service) { s.Makes = []string{`C:\k\data`} }),
				service("app", func(s *kinds.Service) { s.Command[0] = `C:\x\y\app.exe`; s.DependsOn = []string{"worker"} })},
			[]steps.Spec{file("worker_exe", `C:\k\worker.exe`), service("worker", nil)}},
		{"a service that others depend on", "windows",
			[]steps.Spec{file("worker_exe", `C:\k\worker.exe`), file("app_exe", `C:\k\app.exe`), service("worker", nil),
				service("app", func(s *kinds.Service) { s.DependsOn = []string{"worker"} })},
			[]steps.Spec{file("app_exe", `C:\k\app.exe`), service("app", nil)}},
		{"another archive", "windows", []steps.Spec{archive(tgz1, "http://m/1.tgz"), containerd()},
			[]steps.Spec{archive(tgz2, "http://m/2.tgz"), containerd()}},
		{"a wrapped service is not wrapped any more", "windows",
			[]steps.Spec{file("nssm_exe", `C:\k\nssm.exe`), file("worker_exe", `C:\k\worker.exe`), nssm},
			[]steps.Spec{file("worker_exe", `C:\k\worker.exe`), service("worker", nil)}},
		{"settings", "windows", []steps.Spec{value("a", 1), value("b", 1), ports(30000, 32767), env, rule},
			[]steps.Spec{value("b", 1), ports(30500, 33100)}},
		{"a step moves to another path", "windows", []steps.Spec{file("conf", `C:\a\b\x.conf`)},
			[]steps.Spec{file("conf", `C:\a\c\x.conf`)}},
		{"a file that the service watches", "windows",
			[]steps.Spec{file("worker_exe", `C:\k\worker.exe`), file("drop_in", `C:\k\conf.d\x`),
				service("worker", func(s *kinds.Service) { s.Watch = []string{`C:\k\conf.d\x`} })},
			[]steps.Spec{file("worker_exe", `C:\k\worker.exe`), service("worker", nil)}},
		{"everything", "windows", []steps.Spec{file("worker_exe", `C:\k\worker.exe`), service("worker", nil), rule}, nil},
		{"a Linux machine", "linux",
			[]steps.Spec{stepstest.Spec("sysctl", "forward", &kinds.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"}),
				stepstest.Spec("env", "proxy", &kinds.MachineEnv{Name: "HTTP_PROXY", Value: "http://p"}),
				file("conf", "/etc/x/y/z.conf")},
			[]steps.Spec{stepstest.Spec("env", "other", &kinds.MachineEnv{Name: "OTHER", Value: "x"})}},
	}, art
}

func containerd() steps.Spec {
	s := stepstest.Service("containerd", `C:\c\containerd.exe`)
	return stepstest.Spec("service", "containerd", s)
}

// The result of an apply depends on the plan alone, not on the plan before it. A run that ends before any of its
// mutating calls is completed by the next one.
func TestTransitions(t *testing.T) {
	all, art := transitions(t)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) { s.run(t, art, func(*box) {}) })
	}
}

// run changes from one plan to the other, killed before each mutating call in turn, and back. seed creates what is
// there before.
func (s transition) run(t *testing.T, art steps.Artifacts, seed func(*box)) {
	apply := func(list []steps.Spec) *box {
		t.Helper()
		h := openBox(t, s.os)
		seed(h)
		_, err := stepstest.Plan(t.Context(), h, art, "p", list)
		stepstest.Must(t, err)
		return h
	}
	want, back := apply(s.to), apply(s.from)
	for n := 0; ; n++ {
		h := apply(s.from)
		calls, killed := 0, ""
		_, err := stepstest.Plan(t.Context(), host.Intercept(h, func(op, subject string) error {
			if calls++; calls > n {
				if killed == "" {
					killed = op + " " + subject
				}
				return fmt.Errorf("%w before: %s %s", errKilled, op, subject)
			}
			return nil
		}), art, "p", s.to)
		if killed == "" {
			stepstest.Must(t, err)
		}
		ended(t, h, art, s.to, want, fmt.Sprintf("killed at call %d, %s", n+1, killed))
		if killed == "" {
			_, err = stepstest.Plan(t.Context(), h, art, "p", s.from)
			stepstest.Must(t, err)
			ended(t, h, art, s.from, back, "there and back")
			return
		}
	}
}

// ended checks that one more run brings the machine to its end state, and that the run after it finds no changes.
func ended(t *testing.T, h *box, art steps.Artifacts, list []steps.Spec, want *box, when string) {
	t.Helper()
	if _, err := stepstest.Plan(t.Context(), h, art, "p", list); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	calls := 0
	found, err := stepstest.Plan(t.Context(), host.Intercept(h, func(string, string) error { calls++; return nil }), art,
		"p", list)
	if err != nil || calls > 0 || found.Removals.Pending() > 0 {
		t.Fatalf("%s: the run after it makes %d calls, %+v, %v", when, calls, found.Removals, err)
	}
	if d := cmp.Diff(want.state(t), h.state(t)); d != "" {
		t.Fatalf("%s: the plan alone (-) and after another (+):\n%s", when, d)
	}
}

// box is a sandbox and its folder.
type box struct {
	*sandbox.Host
	dir string
}

func openBox(t *testing.T, os string) *box {
	t.Helper()
	dir := t.TempDir()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir, OS: os, Hostname: "win-1"})
	stepstest.Must(t, err)
	return &box{h, dir}
}

var ownAccess = regexp.MustCompile(`(?i)"/?(c/programdata|var/lib)/nodejoin[^,\n]*,?\n? *`)

var trailing = regexp.MustCompile(`,(\n *})`)

var pids = regexp.MustCompile(`"(pid|started|[a-z_]*time)": [^,\n]*,?\n *`)

// state returns every file and all state that is not in files, without nodejoin's own folder.
func (b *box) state(t *testing.T) map[string]string {
	t.Helper()
	f, err := b.Facts(t.Context())
	stepstest.Must(t, err)
	own := strings.NewReplacer(":", "", `\`, "/").Replace(strings.TrimPrefix(f.DataDir, "/"))
	out := map[string]string{}
	err = filepath.WalkDir(b.dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(b.dir, p)
		switch {
		case err != nil:
			return err
		case rel == ".sandbox" || rel == own:
			return fs.SkipDir
		case d.IsDir() && (rel == "C" || rel == "C/ProgramData" || rel == "var" || rel == "var/lib"): // above own
			return nil
		case d.IsDir():
			out[rel] = "folder"
			return nil
		}
		text, err := os.ReadFile(p)
		out[rel] = string(text)
		return err
	})
	stepstest.Must(t, err)
	raw, err := os.ReadFile(filepath.Join(b.dir, ".sandbox", "state.json"))
	stepstest.Must(t, err)
	var state map[string]any
	stepstest.Must(t, json.Unmarshal(raw, &state))
	delete(state, "last_pid")
	delete(state, "boot_time")
	for part, v := range state {
		text, err := json.MarshalIndent(v, "", " ")
		stepstest.Must(t, err)
		shown := ownAccess.ReplaceAllString(pids.ReplaceAllString(string(text), ""), "")
		shown = trailing.ReplaceAllString(shown, "$1")
		if shown != "{}" && shown != "null" && shown != "[]" && shown != "{\n }" && shown != "{\n}" {
			out["state: "+part] = shown
		}
	}
	return out
}
