package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// trialTests are tests of which two want the same port at the same time, one fails, one is skipped, and one
// leaves a program behind that holds its output open.
const trialTests = `package trial

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// meet listens on a fixed port until the other test does so, too.
func meet(t *testing.T, me, other string) {
	l, err := net.Listen("tcp", "192.0.2.2:10250")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := os.Getenv("NODEJOIN_TEST_BUILDS")
	os.MkdirAll(dir, 0o755)
	os.WriteFile(filepath.Join(dir, me), nil, 0o644)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, other)); err == nil {
			return
		}
	}
	t.Fatal("the other test does not run")
}

func TestA(t *testing.T) { meet(t, "a", "b") }
func TestB(t *testing.T) { meet(t, "b", "a") }
func TestSkipped(t *testing.T) { t.Skip() }

func TestFails(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("as it should") }) }
func TestLeaves(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.Stdout = os.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}
func TestHangs(t *testing.T) { select {} }
`

// TestLanes: tests with the same ports run beside each other, what one leaves running ends
// with it, one that hangs is ended, and the events are those of one run of one package.
func TestLanes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module trial\n\ngo 1.26\n", "trial_test.go": trialTests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	bin := filepath.Join(dir, "trial.test")
	if _, err := output(t.Context(), dir, "go", "test", "-c", "-o", bin); err != nil {
		t.Fatal(err)
	}
	test2json, err := output(t.Context(), dir, "go", "tool", "-n", "test2json")
	if err != nil {
		t.Fatal(err)
	}
	var units []unit
	for _, test := range []string{"TestA", "TestB", "TestFails", "TestLeaves", "TestHangs", "TestSkipped"} {
		units = append(units, unit{pkg: "trial", dir: dir, bin: bin, test: test})
	}
	var out bytes.Buffer
	times := map[string]float64{}
	r := &runner{dir: dir, timeout: 10 * time.Second, test2json: test2json, times: times, events: newEvents(&out, units)}
	began := time.Now()
	if err := r.run(t.Context(), units, 2); !errors.Is(err, errFailed) {
		t.Errorf("%v, want %v", err, errFailed)
	}
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %v", took)
	}
	have := map[string]string{} // of each test, and "" for the package, what came of it
	var last event
	for line := range strings.Lines(out.String()) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err, line)
		}
		if slices.Contains([]string{"start", "pass", "fail", "skip"}, e.Action) {
			have[e.Test] += e.Action + " "
		}
		last = e
	}
	for test, want := range map[string]string{"": "start fail ", "TestA": "pass ", "TestB": "pass ", "TestFails": "fail ",
		"TestFails/sub": "fail ", "TestLeaves": "pass ", "TestHangs": "fail ", "TestSkipped": "skip "} {
		if have[test] != want {
			t.Errorf("%q: %q, want %q", test, have[test], want)
		}
	}
	if last.Test != "" || last.Action != "fail" || last.Elapsed == nil {
		t.Errorf("the last event is %+v", last)
	}
	if !strings.Contains(out.String(), "test timed out after 10s") {
		t.Error("nothing says that a test hung")
	}
	if strings.Contains(out.String(), `"Output":"panic: `) {
		t.Error("gotestsum takes it for a panic, and runs no test again")
	}
	_, known := times["trial.TestFails"]
	_, skipped := times["trial.TestSkipped"]
	if known || skipped || times["trial.TestLeaves"] == 0 {
		t.Errorf("times %v, want those that passed", times)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// TestLimit: a unit that hangs is ended after three times its usual time.
func TestLimit(t *testing.T) {
	r := &runner{timeout: 30 * time.Minute, times: map[string]float64{"p.TestShort": 2, "p.TestLong": 100.2, "q": 1000}}
	for name, want := range map[string]time.Duration{"TestShort": leastLimit, "TestLong": 301 * time.Second,
		"TestNew": 30 * time.Minute} {
		if have := r.limit(unit{pkg: "p", test: name}); have != want {
			t.Errorf("%s: %v, want %v", name, have, want)
		}
	}
	if have := r.limit(unit{pkg: "q"}); have != r.timeout {
		t.Errorf("%v, want %v", have, r.timeout)
	}
}

func TestOrder(t *testing.T) {
	units := []unit{{pkg: "p", test: "TestAlone", alone: true}, {pkg: "p", test: "TestShort"}, {pkg: "q"},
		{pkg: "p", test: "TestLong"}, {pkg: "p", test: "TestNew"}}
	order(units, map[string]float64{"p.TestShort": 1, "p.TestLong": 100, "q": 10, "p.TestAlone": 1000})
	var have []string
	for _, u := range units {
		have = append(have, u.String())
	}
	if want := []string{"p.TestNew", "p.TestLong", "q", "p.TestShort", "p.TestAlone"}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
}

// TestAlone: a test that is to run alone and has another name now does not run beside others unnoticed.
func TestAlone(t *testing.T) {
	const pkg = "nodejoin/examples/acceptance"
	units := []unit{{pkg: pkg, test: "TestRoundTrips"}, {pkg: pkg, test: "TestOther"}}
	if err := markAlone(units, true); err != nil || !units[0].alone || units[1].alone {
		t.Errorf("%+v, %v", units, err)
	}
	if err := markAlone(units[1:], true); err == nil {
		t.Error("a missing test was not reported")
	}
	if err := markAlone(units[1:], false); err != nil {
		t.Errorf("a part of the tests: %v", err)
	}
}
