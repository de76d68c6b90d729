// Package tries counts what the tests try against nodejoin: hosts that lie, plans that are hostile, outputs that
// break.
// ../../security.md is made of it:
//
//	go generate ./examples/internal/tries
package tries

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:generate go test . -run TestCurrent -update -timeout 20m

// Class is a sort of tries.
type Class struct {
	Name  string
	Tests []Tests
}

// Tests are the test functions of a package whose names match, and cases of them.
type Tests struct {
	Dir string
	Run string // as of go test -run
}

// Classes in the order of the page.
var Classes = []Class{
	{"hosts that lie, hang, flood or crash", []Tests{
		{"steps/transport", "^(TestHostileHosts|TestHostileMemory|TestLiesAreMany|TestPanicOverOneHost|TestSilentMachine|" +
			"TestBrokenAgentIsReplaced|TestAgentThatDoesNotStart|TestCrashOfTheAgent|TestServingCertificateByConnection|" +
			"TestGreeting|TestSecretsWaitForTheAgent|TestPackedAgent)$"},
		{"steps/transport/wire", "^(TestEveryTextIsCleaned|TestEveryCallIsBounded|TestAdmitBounds|TestChannelLines)$"},
		{"cmd/nodejoin/internal/bundle", "^TestBundle"}, {"steps/collect", "^TestGatherIsBounded$"},
	}},
	{"inputs kept from 30 minutes of fuzzing the wire", []Tests{{"steps/transport/wire", "^Fuzz"}}},
	{"connections cut, runs killed, machines rebooted", []Tests{
		{"steps/transport", "^(TestPushInterrupted|TestDropIn.*|TestCancelIn.*|TestLeaveOverSSHCut)$"},
		{"steps/engine", "^(TestKilled.*|TestUpgradeKilledAgainAndAgain|TestPruneKilled|TestRolledBackAfterAKill)$"},
	}},
	{"users of a host without administrator's rights", []Tests{
		{"steps/transport/agent", "^(TestForeign.*|TestOwnFolder)$"}, {"steps/transport", "^TestAgentFolderIsClosed$"},
		{"steps/executor", "^TestForgedRecord$"}, {"steps/host/linux", "^TestPrivateIncludesTheOwner$"},
	}},
	{"SSH host keys, logins and options", []Tests{
		{"steps/transport", "^(TestHostKey.*|TestLogin|TestKeyboardInteractive|TestSSHAgent|TestJumpHosts|TestSSHConfig.*|" +
			"TestIdentityAgent|TestParseJump|TestUnreachable|TestDataDir)$"},
	}},
	{"archives", []Tests{{"steps/artifact", "^(TestUnpack.*|TestSpoolIsRemoved|FuzzCleanName)$"}}},
	{"downloads", []Tests{{"steps/artifact", "^(TestFetch.*|TestOpenBlobs|TestProxyOfAnAddress)$"}}},
	{"hostile plans", []Tests{
		{"plan", "^(TestLimits|TestLoadRefuses|TestFunctionFileRefusesDevices|TestBadPath)$"},
		{"plan/eval", "^TestSimilarDiagnosticsAreBounded$"},
	}},
	{"secrets in outputs and diffs", []Tests{
		{"steps/kinds", "^(TestPrivateContentIsNotShown|TestRecordHoldsNoSecrets)$"},
		{"steps", "^(TestRedact|TestServiceSecretEnvironment|TestSourceName)$"}, {"plan/saved", "^TestNoSecret$"},
		{"cmd/nodejoin/internal/ui", "^TestClean$"}, {"cmd/nodejoin", "^TestScript$/^secrets$"},
	}},
	{"saved plans that were changed", []Tests{{"plan/saved", "^(TestDecodeRefuses|TestChanges|FuzzDecode)$"}}},
	{"outputs, signals and full disks", []Tests{
		{"cmd/nodejoin", "^TestScript$/^(lost_output|streams|interrupt|fail_.*|lock|damaged_sandbox)$"},
		{"cmd/nodejoin", "^(TestPanicReport|TestInterruptedQuestion|TestKilledProcessIsGone|TestChangedByAKilledRun)$"},
	}},
	{"where the agent comes from", []Tests{{"steps/agentbin",
		"^(TestFindSource|TestSourceOfTheWorkingFolder|TestBuildAndCache)$"}}},
	{"serving certificates and the cluster", []Tests{
		{"steps/kinds", "^TestServingCertificate"}, {"steps/cluster", "^(TestServingRequests|TestOpenRefuses|TestPin)$"},
	}},
}

var function = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(\w+ \*testing\.[TF]\)`)

// names lists the test functions that match Run, whichever system they are for.
func (s Tests) names(root string) ([]string, error) {
	top, _, _ := strings.Cut(s.Run, "/")
	match, err := regexp.Compile(top)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(s.Dir), "*_test.go"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for _, m := range function.FindAllSubmatch(text, -1) {
			if match.Match(m[1]) {
				out = append(out, string(m[1]))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// result is how many tries of a class there are: tests and cases that have no cases of their own.
type result struct{ well, badly, undecided int }

// run runs the tests and counts.
func (s Tests) run(ctx context.Context, root string) (result, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-json", "-timeout", "10m", "-run", s.Run, "./"+s.Dir)
	cmd.Dir = root
	out, runErr := cmd.Output()
	how := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Action, Test string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return result{}, fmt.Errorf("%s: %w", s.Dir, err)
		}
		if e.Test != "" && slices.Contains([]string{"pass", "fail", "skip"}, e.Action) {
			how[e.Test] = e.Action
		}
	}
	if len(how) == 0 {
		return result{}, fmt.Errorf("%s: no test of %s ran: %w", s.Dir, s.Run, runErr)
	}
	var r result
	for name, action := range how {
		if slices.ContainsFunc(keys(how), func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
			continue
		}
		switch action {
		case "pass":
			r.well++
		case "fail":
			r.badly++
		default:
			r.undecided++
		}
	}
	return r, lines.Err()
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

const head = `# What is tried against nodejoin

Each row counts tests and their cases. "Undecided" are cases that the machine which made this page could not run.
The threat model is [SECURITY.md](../.github/SECURITY.md). Made by ` +
	"`go generate ./examples/internal/tries`" + `; do not edit.

| class | tried | well | badly | undecided |
|---|---:|---:|---:|---:|
`

// table runs all tests and returns the page.
func table(ctx context.Context, root string) (string, error) {
	var b strings.Builder
	b.WriteString(head)
	var all result
	row := func(name string, r result) {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", name, r.well+r.badly+r.undecided, r.well, r.badly, r.undecided)
	}
	for _, c := range Classes {
		var sum result
		for _, s := range c.Tests {
			r, err := s.run(ctx, root)
			if err != nil {
				return "", err
			}
			sum.well, sum.badly, sum.undecided = sum.well+r.well, sum.badly+r.badly, sum.undecided+r.undecided
		}
		row(c.Name, sum)
		all.well, all.badly, all.undecided = all.well+sum.well, all.badly+sum.badly, all.undecided+sum.undecided
	}
	row("**all**", all)
	tests, err := list(root)
	return b.String() + tests, err
}

// list is the part of the page that names the tests.
func list(root string) (string, error) {
	var b strings.Builder
	b.WriteString("\n## Tests\n")
	for _, c := range Classes {
		fmt.Fprintf(&b, "\n%s:\n\n", c.Name)
		for _, s := range c.Tests {
			names, err := s.names(root)
			if err != nil {
				return "", err
			}
			if len(names) == 0 {
				return "", fmt.Errorf("%s has no test %s", s.Dir, s.Run)
			}
			cases := ""
			if _, only, ok := strings.Cut(s.Run, "/"); ok {
				cases = " (" + strings.NewReplacer("^", "", "$", "", "(", "", ")", "", "|", ", ").Replace(only) + ")"
			}
			fmt.Fprintf(&b, "* `%s`: %s%s\n", s.Dir, strings.Join(names, ", "), cases)
		}
	}
	return b.String(), nil
}
