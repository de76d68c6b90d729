package acceptance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/hns"
	"nodejoin/examples/acceptance/internal/wine"
)

const (
	nodeName = "win-1"
	// applyWait bounds one apply. A cold one takes about 20 seconds on two cores.
	applyWait = 4 * time.Minute
)

// bed is what a join needs: a cluster, and a machine with its HNS.
type bed struct {
	t       *testing.T
	cluster *controlplane.Cluster
	host    *wine.Host
	network *hns.Server
	dir     string
	// apiServer is where nodes reach the API server; "" = at its own address.
	apiServer string
}

func startCluster(ctx context.Context, t *testing.T) *controlplane.Cluster {
	t.Helper()
	return startClusterWith(ctx, t, controlplane.Options{})
}

// startClusterWith is startCluster with other options than the default.
func startClusterWith(ctx context.Context, t *testing.T, o controlplane.Options) *controlplane.Cluster {
	t.Helper()
	o.Components, o.Dir = componentSet(t), t.TempDir()
	c, err := controlplane.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
		c.Stop()
	})
	return c
}

// newBed returns a machine with nothing on it, for a node of cluster.
func newBed(ctx context.Context, t *testing.T, cluster *controlplane.Cluster) *bed {
	t.Helper()
	return newBedWith(ctx, t, cluster, wine.Options{})
}

// newBedWith is newBed for a machine with other options than the default.
func newBedWith(ctx context.Context, t *testing.T, cluster *controlplane.Cluster, o wine.Options) *bed {
	t.Helper()
	return newBedOf(ctx, t, cluster, o, wine.Start)
}

// newBedOf is newBedWith for a machine that start makes.
func newBedOf(ctx context.Context, t *testing.T, cluster *controlplane.Cluster, o wine.Options,
	start func(context.Context, wine.Options) (*wine.Host, error)) *bed {
	t.Helper()
	b := &bed{t: t, cluster: cluster, dir: t.TempDir()}
	ip, err := hns.NodeIP()
	if err != nil {
		t.Fatal(err)
	}
	calls, err := os.Create(filepath.Join(b.dir, "hns.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { calls.Close() })
	if b.network, err = hns.Start(ip, calls); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.network.Close)
	o.Components, o.Dir, o.HNSPort = componentSet(t), b.dir, b.network.Port()
	if b.host, err = start(ctx, o); err != nil {
		t.Fatal(err)
	}
	b.network.OnSwitch(b.host.SetSwitch)
	t.Cleanup(func() {
		b.noSecretKept()
		if t.Failed() {
			b.report()
		}
		if err := b.host.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// report logs what helps to understand a failed test.
func (b *bed) report() {
	logs, _ := filepath.Glob(b.host.Path(`C:\var\log`) + "/*/*.log") // the pattern is well-formed
	for _, name := range append(logs, b.host.Path(`C:\windows\winsshd.log`), filepath.Join(b.dir, "hns.log")) {
		text, err := os.ReadFile(name)
		if err != nil {
			text = []byte(err.Error())
		}
		b.t.Logf("--- %s\n%s", filepath.Base(name), tail(string(text)))
	}
}

// result is the result of a run of nodejoin.
type result struct {
	code    int // exit code, -1 when killed
	events  []streamEvent
	summary *summary
	stderr  string
	took    time.Duration
}

// streamEvent is the part of a line of --json that the tests use.
type streamEvent struct {
	Type    string `json:"type"`
	Host    string `json:"host"`
	Step    string `json:"step"`
	State   string `json:"state"`
	Result  string `json:"result"`
	Summary string `json:"summary"`
	Detail  string `json:"detail"`
	Done    int64  `json:"done"`
	Note    string `json:"note"`
}

// summary is the last line of --json.
type summary struct {
	Pending  int `json:"pending"`
	ExitCode int `json:"exit_code"`
	Hosts    []struct {
		Node      string   `json:"node"`
		Changed   []string `json:"changed"`
		Unchanged int      `json:"unchanged"`
		NotRun    []string `json:"not_run"`
		Error     *problem `json:"error"`
		Rollback  *struct {
			Version string   `json:"version"`
			Left    []string `json:"left"`
			Error   *problem `json:"error"`
		} `json:"rollback"`
		Mutations int64 `json:"mutations"`
	} `json:"hosts"`
}

// problem is what a run reports about a failure.
type problem struct {
	Step    string `json:"step"`
	Summary string `json:"summary"`
	Detail  string `json:"detail"`
}

func (r *result) mutations() int64 {
	var n int64
	for _, h := range r.summary.Hosts {
		n += h.Mutations
	}
	return n
}

func (r *result) changed() []string {
	var all []string
	for _, h := range r.summary.Hosts {
		all = append(all, h.Changed...)
	}
	return all
}

// String returns what helps to understand a run that failed.
func (r *result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "exit code %d after %.1fs\n", r.code, r.took.Seconds())
	running := map[string]bool{}
	for _, e := range r.events {
		switch e.Type {
		case "step_started":
			running[e.Host+"/"+e.Step] = true
		case "step_done":
			delete(running, e.Host+"/"+e.Step)
			if e.Result == "failed" {
				fmt.Fprintf(&b, "failed: %s/%s: %s: %s\n", e.Host, e.Step, e.Summary, e.Detail)
			}
		}
	}
	for _, step := range slices.Sorted(maps.Keys(running)) {
		fmt.Fprintf(&b, "not done: %s\n", step)
	}
	b.WriteString(tail(r.stderr))
	return b.String()
}

// tail returns the end of a log, short enough for a test report.
func tail(text string) string {
	const limit = 3000
	return text[max(0, len(text)-limit):]
}

// program is the path of a build of nodejoin.
type program string

// released returns nodejoin as it is released.
func released(t *testing.T) program {
	t.Helper()
	return program(nodejoin(t, "linux"))
}

func apply(ctx context.Context, t *testing.T, args []string, on func(streamEvent, *os.Process)) *result {
	t.Helper()
	return released(t).apply(ctx, t, args, on)
}

func mustApply(ctx context.Context, t *testing.T, args []string) *result {
	t.Helper()
	return released(t).mustApply(ctx, t, args)
}

func wantNothing(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	released(t).wantNothing(ctx, t, args)
}

// apply runs `nodejoin apply` with args from the root of the repository and waits for it to exit. on, if not
// nil, is called with each event as it arrives, and with the process.
func (p program) apply(ctx context.Context, t *testing.T, args []string, on func(streamEvent, *os.Process)) *result {
	t.Helper()
	return p.run(ctx, t, "apply", args, on)
}

// run is like apply for any command that changes nodes.
func (p program) run(ctx context.Context, t *testing.T, command string, args []string,
	on func(streamEvent, *os.Process)) *result {
	t.Helper()
	args = append([]string{command, "--auto-approve", "--json"}, args...)
	ctx, cancel := within(ctx, args)
	defer cancel()
	cmd := p.command(ctx, t, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := readStream(t, out, func(e streamEvent) {
		if on != nil {
			on(e, cmd.Process)
		}
	})
	err = cmd.Wait()
	noSecret(t, "standard error", stderr.Bytes())
	r.code, r.stderr, r.took = cmd.ProcessState.ExitCode(), stderr.String(), time.Since(began)
	if err := ended(ctx, err, r.String(), r.stderr); err != nil {
		t.Fatal(err)
	}
	return r
}

// environment returns the environment for a run of nodejoin, which must not read this user's ~/.ssh and which
// keeps its history below home.
func environment(t *testing.T) []string {
	t.Helper()
	return append(os.Environ(), "SSH_AUTH_SOCK=", "HOME="+home(t), "XDG_CACHE_HOME=", "XDG_STATE_HOME=")
}

// home returns an empty home folder.
func home(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(scratch, "home")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func readStream(t *testing.T, from io.Reader, on func(streamEvent)) *result {
	t.Helper()
	r := &result{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		noSecret(t, "a line of --json", lines.Bytes())
		var e streamEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Errorf("a line of --json is not JSON: %q", lines.Text())
			continue
		}
		if e.Type == "summary" {
			r.summary = &summary{}
			if err := json.Unmarshal(lines.Bytes(), r.summary); err != nil {
				t.Error(err)
			}
		}
		r.events = append(r.events, e)
		on(e)
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return r
}

// mustApply applies and checks that the exit code is 0.
func (p program) mustApply(ctx context.Context, t *testing.T, args []string) *result {
	t.Helper()
	r := p.apply(ctx, t, args, nil)
	if r.code != 0 || r.summary == nil {
		t.Fatalf("apply: %s", r)
	}
	return r
}

// wantNothing applies and checks that there was nothing to change and nothing was touched.
func (p program) wantNothing(ctx context.Context, t *testing.T, args []string) {
	t.Helper()
	r := p.mustApply(ctx, t, args)
	if r.summary.Pending != 0 || r.mutations() != 0 || len(r.changed()) != 0 {
		t.Errorf("another apply: %d pending, %v changed, %d mutating calls, want none\n%s", r.summary.Pending, r.changed(),
			r.mutations(), r)
	}
}
