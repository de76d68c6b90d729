package kinds_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

// machine is a sandbox whose complete state can be compared.
type machine struct {
	*sandbox.Host
	dir   string
	boots bool // the scenario reboots it: what a boot changes does not count
}

func newMachine(t *testing.T, os string) *machine {
	t.Helper()
	m := &machine{dir: t.TempDir()}
	var err error
	m.Host, err = sandbox.Open(t.Context(), sandbox.Config{Path: m.dir, OS: os})
	stepstest.Must(t, err)
	m.seed(t, os)
	return m
}

// copy returns another machine in the same state.
func (m *machine) copy(t *testing.T, system string) *machine {
	t.Helper()
	c := &machine{dir: t.TempDir(), boots: m.boots}
	stepstest.Must(t, os.CopyFS(c.dir, os.DirFS(m.dir)))
	var err error
	c.Host, err = sandbox.Open(t.Context(), sandbox.Config{Path: c.dir, OS: system})
	stepstest.Must(t, err)
	return c
}

// seed creates things that are not nodejoin's, close to what nodejoin changes.
func (m *machine) seed(t *testing.T, os string) {
	t.Helper()
	if os == "linux" {
		stepstest.Put(t, m, "/opt/theirs", "x")
		stepstest.Put(t, m, "/etc/theirs.env", "Z=1\n")
		stepstest.Put(t, m, "/var/lib/theirs", "x")
		return
	}
	ctx := t.Context()
	stepstest.Put(t, m, `C:\ProgramData\theirs.txt`, "x")
	stepstest.Put(t, m, `C:\theirs\svc.exe`, "x")
	stepstest.Put(t, m, `C:\var\lib\theirs.txt`, "x")
	stepstest.Must(t, m.SetAccess(ctx, `C:\theirs`, host.AccessPrivate))
	stepstest.Must(t, m.CreateService(ctx, host.ServiceConfig{Name: "theirs", Command: []string{`C:\theirs\svc.exe`},
		Start: host.StartAuto}))
	stepstest.Must(t, m.StartService(ctx, "theirs"))
	stepstest.Must(t, m.SetRegistryValue(ctx, `HKLM\SOFTWARE\nodejoin`, "Theirs",
		host.RegistryValue{Type: "string", String: "x"}))
	stepstest.Must(t, m.SetMachineEnv(ctx, "THEIRS", "x"))
	stepstest.Must(t, m.PutFirewallRule(ctx, host.FirewallRule{Name: "theirs", Direction: "in", Action: "allow",
		Protocol: "tcp", Ports: "1", Enabled: true}))
	stepstest.Must(t, m.PutHNSNetwork(ctx, host.HNSNetwork{ID: "1", Name: "nat", Type: "NAT"}))
}

// snapshot returns every file with its content and all state that is not in files. Features that are off, now or after
// a reboot, do not count.
func (m *machine) snapshot(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	stepstest.Must(t, filepath.WalkDir(m.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(m.dir, p)
		switch {
		case rel == ".sandbox":
			return fs.SkipDir
		case d.IsDir():
			out[rel] = "folder"
		default:
			b, err := os.ReadFile(p)
			out[rel] = fmt.Sprintf("%q", b)
			return err
		}
		return nil
	}))
	raw, err := os.ReadFile(filepath.Join(m.dir, ".sandbox", "state.json"))
	stepstest.Must(t, err)
	var state map[string]json.RawMessage
	stepstest.Must(t, json.Unmarshal(raw, &state))
	delete(state, "last_pid")
	for part, text := range state {
		if slices.Contains([]string{"links", "chains", "tables", "routes"}, part) {
			out[part] = string(text)
		}
		var entries map[string]any
		if json.Unmarshal(text, &entries) != nil {
			continue
		}
		for name, v := range entries {
			switch {
			case part == "features" && (v == string(host.FeatureOff) || v == string(host.FeatureOffPending)):
				continue // like a machine that was never named
			case m.boots && part == "networks":
				continue
			case m.boots && part == "registry" && (strings.HasSuffix(name, `\activecomputername`) ||
				strings.HasSuffix(name, `\tcpip\parameters`)):
				delete(v.(map[string]any), "computername") // the name in effect until the next boot
				delete(v.(map[string]any), "hostname")
			case m.boots && part == "services":
				delete(v.(map[string]any), "pid")
			case m.boots && part == "registry": // the name that the machine was booted with
				delete(v.(map[string]any), "hostname")
				if strings.HasSuffix(name, `\activecomputername`) {
					continue
				}
			}
			b, err := json.Marshal(v)
			stepstest.Must(t, err)
			out[part+": "+name] = string(b)
		}
	}
	return out
}

// comesBackAs: a variable that was set several times in a file of lines is restored as adjacent lines.
func comesBackAs(snapshot map[string]string) {
	const file = "etc/environment"
	if snapshot[file] == `"# c\nA=0\nZ=9\nA=3"` {
		snapshot[file] = `"# c\nA=0\nA=3\nZ=9\n"`
	}
}

// changedEnv reports whether an apply changed the file of comesBackAs.
func changedEnv(m *machine, t *testing.T, before map[string]string) bool {
	return m.snapshot(t)["etc/environment"] != before["etc/environment"]
}

// left runs a complete leave, including nodejoin's own folder.
func left(t *testing.T, h host.Host) error {
	t.Helper()
	x := executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {})
	reply, err := x.Leave(t.Context(), executor.LeaveRequest{Node: "win-1"})
	if err != nil {
		return err
	}
	if reply.Err != nil {
		return fmt.Errorf("%s: %w", reply.Failed, reply.Err)
	}
	if stays := leftBy(reply); len(stays) > 0 {
		return fmt.Errorf("left: %v", stays)
	}
	rest, err := x.Forget(t.Context(), executor.LeaveRequest{Node: "win-1"})
	if err == nil && len(rest.Left) > 0 {
		err = fmt.Errorf("left: %v", rest.Left)
	}
	return err
}

// leftBy returns the items that a leave left, each with its reason.
func leftBy(reply executor.LeaveReply) map[string]string {
	out := map[string]string{}
	for _, i := range reply.Items {
		if i.Left != "" {
			out[i.Key.String()] = i.Left
		}
	}
	return out
}

// joined returns a machine in the scenario's last state, with the snapshot from before.
func (s scenario) joined(t *testing.T, a steps.Artifacts) (*machine, map[string]string) {
	t.Helper()
	m := newMachine(t, s.os)
	m.boots = s.boots
	if s.before == nil && s.drift != nil {
		s.drift(t, m)
	}
	before := m.snapshot(t)
	comesBackAs(before)
	if s.before != nil {
		stepstest.Applied(t, m, a, s.before)
	}
	stepstest.Applied(t, m, a, s.list)
	return m, before
}

// leave undoes everything that a kind did and nothing else; a second leave finds nothing.
func TestLeave(t *testing.T) {
	all, art := scenarios(t)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			m, before := s.joined(t, art)
			x := executor.NewExecutor(kinds.Catalog(), m, art, func(event.Event) {})
			reply, err := x.CheckLeave(t.Context(), executor.LeaveRequest{Node: "win-1"})
			stepstest.Must(t, err)
			if reply.Mutations != 0 {
				t.Errorf("the look made %d mutating calls", reply.Mutations)
			}
			stepstest.Must(t, left(t, m))
			if d := cmp.Diff(before, m.snapshot(t)); d != "" {
				t.Errorf("the machine before (-) and after (+):\n%s", d)
			}
			calls := 0
			stepstest.Must(t, left(t, host.Intercept(m, func(op, subject string) error { calls++; return nil })))
			if calls != 0 {
				t.Errorf("a second leave made %d mutating calls", calls)
			}
		})
	}
}

// A leave that ends before any of its mutating calls is completed by the next one.
func TestLeaveInterrupted(t *testing.T) {
	all, art := scenarios(t)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			joined, before := s.joined(t, art)
			for n := 0; ; n++ {
				m := joined.copy(t, s.os)
				calls := 0
				killed := ""
				err := left(t, host.Intercept(m, func(op, subject string) error {
					if calls++; calls > n {
						if killed == "" {
							killed = op + " " + subject
						}
						return errKilled
					}
					return nil
				}))
				if killed == "" {
					stepstest.Must(t, err)
					return
				}
				if err == nil {
					t.Fatalf("killed at call %d, %s, yet the leave did not fail", n+1, killed)
				}
				if err := left(t, m); err != nil {
					t.Fatalf("after a leave killed at call %d, %s: %v", n+1, killed, err)
				}
				if d := cmp.Diff(before, m.snapshot(t)); d != "" {
					t.Fatalf("killed at call %d, %s: the machine before (-) and after (+):\n%s", n+1, killed, d)
				}
			}
		})
	}
}

// A machine can leave after an apply that was interrupted anywhere, also within the write of a file.
func TestLeaveAfterInterruptedApply(t *testing.T) {
	all, art := scenarios(t)
	for _, s := range all {
		if s.before != nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for n := 0; ; n++ {
				m := newMachine(t, s.os)
				m.boots = s.boots
				if s.drift != nil {
					s.drift(t, m)
				}
				before := m.snapshot(t)
				calls := 0
				killed, written := "", ""
				applyUntil := host.Intercept(m, func(op, subject string) error {
					if calls++; calls > n {
						killed = op + " " + subject
						if calls == n+1 && op == "write file" {
							written = subject
						}
						return errKilled
					}
					return nil
				})
				if reply := stepstest.Apply(t, applyUntil, art, s.list); len(reply.Changed) > 0 ||
					reply.Failed != "" && changedEnv(m, t, before) {
					comesBackAs(before)
				}
				if written != "" {
					stepstest.Put(t, m, host.TempName(written), "a part of it")
				}
				stepstest.Must(t, left(t, m))
				if d := cmp.Diff(before, m.snapshot(t)); d != "" {
					t.Fatalf("killed at call %d, %s: the machine before (-) and after (+):\n%s", n+1, killed, d)
				}
				if killed == "" {
					return
				}
			}
		})
	}
}

// What was there before is restored with content, access and values, including large and private files, and a record
// does not hold what others may not read.
func TestLeaveRestores(t *testing.T) {
	m := newMachine(t, "windows")
	ctx := t.Context()
	large := strings.Repeat("large ", 20000)
	stepstest.Put(t, m, `C:\k\small.txt`, "small")
	stepstest.Put(t, m, `C:\k\large.txt`, large)
	stepstest.Put(t, m, `C:\k\private.txt`, "earlier secret")
	stepstest.Must(t, m.SetAccess(ctx, `C:\k\private.txt`, host.AccessPrivate))
	stepstest.Must(t, m.Mkdir(ctx, `C:\open`, host.AccessDefault))
	stepstest.Must(t, m.SetMachineEnv(ctx, "PATH", "old"))
	stepstest.Must(t, m.SetRegistryValue(ctx, `HKLM\SOFTWARE\x`, `a\b`, host.RegistryValue{Type: "dword", Number: 7}))
	rule := host.FirewallRule{Name: "kubelet", DisplayName: "kubelet", Direction: "in", Action: "block",
		Protocol: "tcp", Ports: "10250", Enabled: true}
	stepstest.Must(t, m.PutFirewallRule(ctx, rule))
	before := m.snapshot(t)
	rule.Action = "allow"
	file := func(id, path string) steps.Spec {
		return stepstest.Spec("file", id, &kinds.File{Path: path, Content: "new", Access: host.AccessPrivate})
	}
	stepstest.Applied(t, m, stepstest.Memory{}, []steps.Spec{file("a", `C:\k\small.txt`), file("b", `C:\k\large.txt`),
		file("c", `C:\k\private.txt`),
		stepstest.Spec("directory", "d", &kinds.Directory{Path: `C:\open`, Access: host.AccessPrivate}),
		stepstest.Spec("env", "e", &kinds.MachineEnv{Name: "PATH", Value: "new"}),
		stepstest.Spec("registry", "r", &kinds.Registry{Key: `HKLM\SOFTWARE\x`, Name: `a\b`,
			RegistryValue: host.RegistryValue{Type: "dword", Number: 8}}),
		stepstest.Spec("firewall_rule", "f", &kinds.FirewallRule{FirewallRule: rule}),
	})
	if record := stepstest.Text(t, m, `C:\ProgramData\nodejoin\record.json`); strings.Contains(record,
		"ZWFybGllciBzZWNyZXQ") || strings.Contains(record, "earlier secret") {
		t.Error("the record holds what a private file held")
	}
	stepstest.Must(t, left(t, m))
	if d := cmp.Diff(before, m.snapshot(t)); d != "" {
		t.Errorf("the machine before (-) and after (+):\n%s", d)
	}
}

// What our programs made is removed with everything in it, without following links. What was there before the service
// stays and is reported.
func TestLeaveMade(t *testing.T) {
	m := newMachine(t, "windows")
	stepstest.Put(t, m, `C:\old\theirs.txt`, "x")
	stepstest.Put(t, m, `C:\outside\theirs.txt`, "x")
	worker := stepstest.Service("worker", `C:\w\worker.exe`)
	worker.Makes = []string{`C:\old`, `C:\state`, `C:\w\worker.conf`}
	worker.HNSNetworks = []string{"pods", "nat"}
	before := m.snapshot(t)
	stepstest.Applied(t, m, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("file", "exe", &kinds.File{Path: `C:\w\worker.exe`, Content: "w"}),
			stepstest.Spec("service", "worker", worker)})
	stepstest.Put(t, m, `C:\state\pods\1\volume`, "x")
	stepstest.Put(t, m, `C:\w\worker.conf`, "x")
	stepstest.Put(t, m, `C:\old\ours.txt`, "x")
	before[filepath.Join("C", "old", "ours.txt")] = `"x"`
	stepstest.Must(t, m.PutHNSNetwork(t.Context(), host.HNSNetwork{ID: "2", Name: "pods", Type: "Overlay"}))
	if err := os.Symlink(filepath.Join(m.dir, "C", "outside"), filepath.Join(m.dir, "C", "state", "link")); err != nil {
		t.Fatal(err)
	}
	x := executor.NewExecutor(kinds.Catalog(), m, stepstest.Memory{}, func(event.Event) {})
	reply, err := x.Leave(t.Context(), executor.LeaveRequest{Node: "win-1"})
	stepstest.Must(t, err)
	if reply.Err != nil {
		t.Fatal(reply.Failed, reply.Err)
	}
	if d := cmp.Diff(map[string]string{`made:C:\old`: "it was there before nodejoin",
		"hns_network:nat": "it was there before nodejoin"}, leftBy(reply)); d != "" {
		t.Error(d)
	}
	_, err = x.Forget(t.Context(), executor.LeaveRequest{Node: "win-1"})
	stepstest.Must(t, err)
	if d := cmp.Diff(before, m.snapshot(t)); d != "" {
		t.Errorf("the machine before (-) and after (+):\n%s", d)
	}
}

// A folder of ours in which others have put something stays and is reported, and so does a service that somebody else
// registered under our name.
func TestLeaveKeepsWhatIsNotOurs(t *testing.T) {
	m := newMachine(t, "windows")
	ctx := t.Context()
	stepstest.Applied(t, m, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("directory", "d", &kinds.Directory{Path: `C:\k`}),
			stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\w.exe`, Content: "w"}),
			stepstest.Spec("service", "w", stepstest.Service("w", `C:\k\w.exe`))})
	stepstest.Put(t, m, `C:\k\theirs.txt`, "x")
	stepstest.Must(t, m.StopService(ctx, "w"))
	stepstest.Must(t, m.DeleteService(ctx, "w"))
	stepstest.Must(t,
		m.CreateService(ctx, host.ServiceConfig{Name: "w", Description: "theirs",
			Command: []string{`C:\theirs\svc.exe`}, Start: host.StartManual}))
	reply, err := executor.NewExecutor(kinds.Catalog(), m, stepstest.Memory{}, func(event.Event) {}).Leave(ctx,
		executor.LeaveRequest{Node: "win-1"})
	stepstest.Must(t, err)
	if reply.Err != nil {
		t.Fatal(reply.Failed, reply.Err)
	}
	if d := cmp.Diff(map[string]string{
		"service:w":      "its description no longer says that nodejoin manages it, so it may be somebody else's",
		`directory:C:\k`: "it holds what is not nodejoin's: theirs.txt"}, leftBy(reply)); d != "" {
		t.Error(d)
	}
	if _, err := m.Service(ctx, "w"); err != nil {
		t.Error(err)
	}
	if _, err := m.Stat(ctx, `C:\k\w.exe`); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("our program: %v", err)
	}
}

// An authority that somebody else has added, too, does not stop a leave: nodejoin's entry is removed, theirs stays.
func TestLeaveTrustedByOthers(t *testing.T) {
	m := newMachine(t, "windows")
	ca := stepstest.TestAuthority(t)
	before := m.snapshot(t)
	stepstest.Applied(t, m, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("trusted_ca", "ca",
			&kinds.TrustedCA{Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}))})})
	quirks, err := json.Marshal(sandbox.Quirks{Authorities: []string{fmt.Sprintf("%x", sha256.Sum256(ca.Raw))}})
	stepstest.Must(t, err)
	stepstest.Must(t, os.WriteFile(filepath.Join(m.dir, ".sandbox", "quirks.json"), quirks, 0o600))
	stepstest.Must(t, left(t, m))
	if d := cmp.Diff(before, m.snapshot(t)); d != "" {
		t.Errorf("the machine before (-) and after (+):\n%s", d)
	}
	if trusted, err := m.TrustedCA(t.Context(), ca.Raw); err != nil || !trusted {
		t.Errorf("trusted: %v, %v; somebody else still does", trusted, err)
	}
}

// A claim that no kind can undo is refused before anything is changed. One whose state cannot be read leaves nothing
// in the snapshot.
func TestClaimWithoutUndo(t *testing.T) {
	m := newMachine(t, "windows")
	f, err := m.Facts(context.Background())
	stepstest.Must(t, err)
	rec, err := record.Load(t.Context(), m, f)
	stepstest.Must(t, err)
	e := &steps.Env{Facts: f, Record: rec, Undos: kinds.Undos()}
	if err := e.Claim(t.Context(), m, record.New{Key: record.Prefix("unheard_of").Of("x")}); err == nil ||
		!strings.Contains(err.Error(), "unheard_of:x") {
		t.Errorf("%v, want a refusal", err)
	}
	unreadable := errors.New("unreadable")
	undo := e.Undos[record.File]
	undo.State = func(_ context.Context, _ host.Reader, _ *steps.Env, name string) (any, error) {
		if name == `C:\b` {
			return nil, unreadable
		}
		return nil, nil
	}
	e.Undos[record.File] = undo
	rec.Begin(nil, time.Now())
	err = e.Claim(t.Context(), m, record.New{Key: record.File.Of(`C:\a`)}, record.New{Key: record.File.Of(`C:\b`)})
	if !errors.Is(err, unreadable) || len(rec.Snapshot.Items) > 0 {
		t.Errorf("%v, the snapshot holds %v", err, rec.Snapshot.Items)
	}
}
