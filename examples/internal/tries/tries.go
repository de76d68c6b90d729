// Package tries counts what the tests try against nodejoin: hosts that lie, plans that are hostile, outputs that
// break.
// ../../security.md is made of it:
//
//	go generate ./examples/internal/tries
//	go test ./examples/internal/tries -run TestCurrent -update -class archives    # that row only
package tries

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
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
			"TestGreeting|TestSecretsWaitForTheAgent|TestPackedAgent|TestHostileServers)$"},
		{"steps/transport/wire", "^(TestEveryTextIsCleaned|TestEveryFieldLies|TestEveryCallIsBounded|TestAdmitBounds|" +
			"TestAdmittedDuration|TestChannelLines)$"},
		{"cmd/nodejoin/internal/bundle", "^TestBundle"}, {"steps/collect", "^TestGatherIsBounded$"},
	}},
	{"inputs kept from 30 minutes of fuzzing the wire", []Tests{{"steps/transport/wire", "^Fuzz"}}},
	{"connections cut, runs killed, machines rebooted", []Tests{
		{"steps/transport", "^(TestPushInterrupted|TestDropIn.*|TestCancelIn.*|TestLeaveOverSSHCut)$"},
		{"steps/engine", "^(TestKilled.*|TestUpgradeKilledAgainAndAgain|TestPruneKilled|TestRolledBackAfterAKill)$"},
		{"cmd/nodejoin", "^TestChaos$"},
	}},
	{"users of a host without administrator's rights", []Tests{
		{"steps/transport/agent", "^(TestForeign.*|TestOwnFolder)$"}, {"steps/transport", "^TestAgentFolderIsClosed$"},
		{"steps/executor", "^(TestForgedRecord|TestForeignLinkToTheDataFolder)$"},
		{"steps/host/linux", "^TestPrivateIncludesTheOwner$"},
	}},
	{"SSH host keys, logins and options", []Tests{
		{"steps/transport", "^(TestHostKey.*|TestLogin|TestKeyboardInteractive|TestSSHAgent|TestJumpHosts|TestSSHConfig.*|" +
			"TestIdentityAgent|TestParseJump|TestUnreachable|TestDataDir)$"},
	}},
	{"root's rights by sudo and doas", []Tests{{"steps/transport", "^(TestBecome.*|TestPasswordIsGivenOnce)$"}}},
	{"archives", []Tests{{"steps/artifact", "^(TestUnpack.*|TestSpoolIsRemoved|FuzzCleanName)$"}}},
	{"downloads", []Tests{{"steps/artifact", "^(TestFetch.*|TestOpenBlobs|TestOpenPipe|TestProxyOfAnAddress)$"}}},
	{"locks and checksum files", []Tests{
		{"cmd/nodejoin/internal/locker", "."}, {"plan/lock", "."}, {"plan", "^TestLargeLock$"},
		{"cmd/nodejoin", "^TestScript$/^lock_"},
		{"plan", "^TestCorpus$/^invalid$/^lock_"},
	}},
	{"hostile plans", []Tests{
		{"plan", "^(TestLimits|TestLoadRefuses|TestLoadUnreadable|TestFunctionFileRefusesDevices|TestBadPath)$"},
		{"plan/eval", "^TestSimilarDiagnosticsAreBounded$"},
		{"plan", "^TestCorpus$/^invalid$/^(untrusted|env_sensitive|sensitive_.*|kubelet_sensitive|" +
			"kubelet_reserved_labels|template_calls_itself|nested_templates|huge_number|expression_too_long|" +
			"for_each_too_many|nodes_too_many.*|locals_.*|steps_cycle.*|profiles_circle|" +
			"join_kubeconfig_.*|admin_kubeconfig.*)$"},
	}},
	{"programs and files that plans read", []Tests{
		{"cmd/nodejoin/internal/program", "."}, {"cmd/nodejoin", "^TestScript$/^(data|output)$"},
		{"plan", "^TestLimitsOfPrograms$"}, {"plan", "^TestCorpus$/^invalid$/^(data.*|outputs|checks|dynamic)$"},
	}},
	{"plan files, paths and encodings", []Tests{
		{"plan", "^TestCorpus$/^invalid$/^(byte_order_mark|control_characters|nul_.*|not_utf8|utf16|too_large|" +
			"mac_line_ends|unreadable_plan_file|no_directory|empty_directory|long_names|long_paths|windows_paths|linux_paths|" +
			"nested_values|nested_too_deep|nested_functions|syntax.*|wrong_suffix|duplicate_.*)$"},
	}},
	{"secrets in outputs and diffs", []Tests{
		{"steps/kinds", "^(TestPrivateContentIsNotShown|TestRecordHoldsNoSecrets)$"},
		{"steps", "^(TestRedact|TestServiceSecretEnvironment|TestSourceName)$"}, {"plan/saved", "^TestNoSecret$"},
		{"cmd/nodejoin/internal/ui", "^TestClean$"}, {"cmd/nodejoin", "^TestScript$/^secrets$"},
	}},
	{"saved plans that were changed", []Tests{{"plan/saved", "^(TestDecodeRefuses|TestChanges|FuzzDecode)$"}}},
	{"outputs, signals and full disks", []Tests{
		{"cmd/nodejoin", "^TestScript$/^(lost_output|streams|interrupt|fail_.*|lock|damaged_sandbox)$"},
		{"cmd/nodejoin", "^(TestPanicReport|TestInterruptedQuestion|TestChangedByAKilledRun|" +
			"TestLostOutputs|TestInterruptedJSON|TestBlockedOutput)$"},
		{"cmd/nodejoin/internal/holder", "^TestKilledProcessIsGone$"}, {"cmd/nodejoin/internal/atomicfile", "."},
		{"cmd/nodejoin/internal/runlog", "."},
	}},
	{"reports with text of hosts", []Tests{
		{"cmd/nodejoin/internal/report", "^(TestHTML|TestMarkdown|TestSARIF|TestJUnit)"},
		{"cmd/nodejoin/internal/draw", "^TestHTML$"},
	}},
	{"where the agent comes from", []Tests{{"steps/agentbin",
		"^(TestFindSource|TestSourceOfTheWorkingFolder|TestBuildAndCache)$"}}},
	{"releases", []Tests{{"examples/internal/release",
		"^(TestReproducible|TestImage.*|TestActionsArePinned|TestAgentSizes)$"}}},
	{"serving certificates and the cluster", []Tests{
		{"steps/kinds", "^TestServingCertificate"}, {"steps/cluster", "^(TestServingRequests|TestOpenRefuses|TestPin)$"},
	}},
}

// Findings are those of a review of an early version, each with the tests that hold its fix.
var Findings = []Finding{
	{"H1", "a reply about an unknown step crashes the controller",
		"TestHostileHosts TestPanicOverOneHost TestPanicReport"},
	{"H2", "a host chooses the addresses of its certificate", "TestServingCertificateByConnection"},
	{"H3", "a diff shows private files of hosts", "TestPrivateContentIsNotShown"},
	{"H4", "a forged record is believed; junctions are followed", "TestForgedRecord TestForeignFolder TestForeignLink " +
		"TestForeignLinkToTheDataFolder TestForeignJunction"},
	{"H5", "the agent is built from the working folder", "TestSourceOfTheWorkingFolder"},
	{"H6", "a hung host holds a command, one reply takes 15 GB",
		"TestSilentMachine TestHostileMemory TestEveryCallIsBounded"},
	{"M1", "escapes and forged lines of other hosts", "TestHostileHosts TestEveryTextIsCleaned FuzzEvent"},
	{"M2", "names in a bug report come from the host", "TestBundleNames TestBundleIsBounded"},
	{"M3", "replies are not checked against the request", "TestHostileHosts TestEveryFieldLies FuzzReply"},
	{"M4", "tokens of a node that live for a year", "TestTokenBinding TestEndTokens"},
	{"M5", "the secret of an address in an error", "TestSourceName"},
	{"M6", "plans of pull requests", "TestCorpus/untrusted TestCorpus/env_sensitive"},
	{"M7", "a template that calls itself", "TestCorpus/template_calls_itself TestCorpus/nested_templates"},
	{"M8", "output that cannot be written", "TestScript/lost_output TestLostOutputs"},
	{"M9", "private without the owner; an agent's folder that others can change",
		"TestPrivateIncludesTheOwner TestAgentFolderIsClosed TestSecretsWaitForTheAgent"},
	{"M10", "options of ssh_config that are ignored", "TestSSHConfigOptions"},
	{"L1", "a manifest with a fact", "TestScript/manifest_fact"},
	{"L2", "expressions without bounds", "TestLimits TestCorpus/for_each_too_many TestCorpus/huge_number"},
	{"L3", "locals take quadratic time", "TestManyLocals"},
	{"L4", "old Mac line ends", "TestCorpus/mac_line_ends"},
	{"L5", "events without end", "TestAdmitBounds TestHostileHosts"},
	{"L6", "downloads without a bound", "TestFetchIsBounded"},
	{"L7", "short names in archives", "TestUnpackRefuses"},
	{"L8", "secrets in the environment of a service",
		"TestServiceSecretEnvironment TestCorpus/service_sensitive_environment"},
	{"L9", "the supply chain of nodejoin", "TestReproducible TestImage TestAgentSizes TestActionsArePinned"},
}

// Finding is a row of the table: its tests are names, with a case that has a file of its own.
type Finding struct{ ID, What, Tests string }

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

// table runs all tests, or with only != "" those of one class, and returns the page. The other rows are those of the
// page before.
func table(ctx context.Context, root, only, before string) (string, error) {
	var b strings.Builder
	b.WriteString(head)
	var all result
	for _, c := range Classes {
		var sum result
		if only != "" && only != c.Name {
			var err error
			if sum, err = rowOf(before, c.Name); err != nil {
				return "", err
			}
		} else {
			for _, s := range c.Tests {
				r, err := s.run(ctx, root)
				if err != nil {
					return "", err
				}
				sum.add(r)
			}
		}
		b.WriteString(sum.row(c.Name))
		all.add(sum)
	}
	b.WriteString(all.row("**all**"))
	tests, err := list(root)
	return b.String() + tests, err
}

func (r *result) add(o result) {
	r.well, r.badly, r.undecided = r.well+o.well, r.badly+o.badly, r.undecided+o.undecided
}

func (r *result) row(name string) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d |\n", name, r.well+r.badly+r.undecided, r.well, r.badly, r.undecided)
}

// rowOf reads the row of a class.
func rowOf(page, name string) (r result, err error) {
	_, rest, ok := strings.Cut(page, "\n| "+name+" |")
	if !ok {
		return r, fmt.Errorf("the page has no row of %q: leave out -class", name)
	}
	var tried int
	_, err = fmt.Sscanf(rest, " %d | %d | %d | %d |", &tried, &r.well, &r.badly, &r.undecided)
	return r, err
}

// proofs is the table of findings. Each test must exist.
func proofs(root string) (string, error) {
	known, err := functions(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("\n## Findings\n\nWhat a review of an early version found, and the tests that hold it. Those that " +
		"need Windows itself have not run on one yet: see [what is proven](proof.md).\n\n" +
		"| finding | what | tests |\n|---|---|---|\n")
	for _, f := range Findings {
		var tests []string
		for name := range strings.FieldsSeq(f.Tests) {
			where, ok := known[name]
			if !ok {
				return "", fmt.Errorf("%s: there is no test %s", f.ID, name)
			}
			tests = append(tests, name+where)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.ID, f.What, strings.Join(tests, ", "))
	}
	return b.String(), nil
}

// functions are all test functions of the module, and cases that are files: TestCorpus/NAME, TestScript/NAME. The
// value says where they run, "" = everywhere.
func functions(root string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "acceptance"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path) //nolint:gosec // the module's own files
			where := ""
			if bytes.Contains(text, []byte("\n//go:build windows\n")) || bytes.HasPrefix(text, []byte("//go:build windows\n")) {
				where = " (needs Windows)"
			}
			for _, m := range function.FindAllSubmatch(text, -1) {
				if was, there := out[string(m[1])]; !there || was != "" { // another system has one of that name
					out[string(m[1])] = where
				}
			}
			return err
		case strings.HasSuffix(path, ".txtar"):
			suite := "TestCorpus/"
			if filepath.Base(filepath.Dir(path)) == "script" {
				suite = "TestScript/"
			}
			out[suite+strings.TrimSuffix(d.Name(), ".txtar")] = ""
		}
		return nil
	})
	return out, err
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
	found, err := proofs(root)
	return b.String() + found, err
}
