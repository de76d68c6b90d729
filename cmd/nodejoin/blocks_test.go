package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// pageBlock is a code block of a page.
type pageBlock struct {
	page, language string // language "" = a screen; "indented" = commands
	n              int    // which of its page and language, from 1
	text           string
}

func (b pageBlock) String() string { return fmt.Sprintf("%s %s %d", b.page, b.language, b.n) }

// pages are the pages that people read, from the folder of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	out := []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md"}
	for _, pattern := range []string{"examples/*.md", "examples/*/README.md", ".github/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			out = append(out, filepath.ToSlash(strings.TrimPrefix(file, "../../")))
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d pages were found", len(out))
	}
	return out
}

// blocksOf are the code blocks of a page, as a reader of CommonMark finds them.
func blocksOf(t *testing.T, page string) (out []pageBlock) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	root := goldmark.DefaultParser().Parse(text.NewReader(source))
	err = ast.Walk(root, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
		language := "indented"
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			language = string(n.Language(source))
		case *ast.CodeBlock:
		default:
			return ast.WalkContinue, nil
		}
		if enter {
			count[language]++
			var b strings.Builder
			for i := range n.Lines().Len() {
				at := n.Lines().At(i)
				b.Write(at.Value(source))
			}
			out = append(out, pageBlock{page, language, count[language], b.String()})
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// notRun says of blocks, and of lines with commands, why no script of their page uses them. A file in brackets has the
// same command; tests that are named exist.
var notRun = map[string]string{
	"go generate ./steps/agentbin":                                  "[.ci/run]",
	"go build -tags embedagent -o nodejoin ./cmd/nodejoin":          "[.ci/run]",
	"go run ./cmd/nodejoin apply examples/quickstart":               "[.ci/run]",
	"go build -tags embedagent -o /tmp/nodejoin ./cmd/nodejoin":     "is the build of .ci/run, into another folder",
	"go run ./examples/bench/uplink -nodejoin /tmp/nodejoin":        "measures for many minutes, as root",
	"go run ./examples/bench/scale -nodejoin /tmp/nodejoin -real 0": "measures for minutes",
	"go run ./examples/bench/scale -nodejoin /tmp/nodejoin -hosts 1,10,100,1000 -real 100 " +
		"-ansible mitogen": "measures for many minutes, as root",
	"go test ./examples/bench -run '^$' -bench Fleet -benchtime 1x": "measures for minutes",
	"NODEJOIN_FLEET_HOSTS=1000 ./examples/acceptance/run.sh -v -timeout 3h -run TestFleetOfThousand .": "needs the " +
		"components, and takes an hour",
	"go test ./steps/transport -run '^$' -bench Stage -benchtime 7x": "measures for minutes",
	"go test ./plan -run '^$' -bench Compile -benchtime 1x":          "measures for a minute",
	"go test ./...":                       "[.ci/run], by gotestsum, which runs what fails once more",
	"./examples/acceptance/run.sh":        "[.ci/run]",
	"./run.sh":                            "is ./examples/acceptance/run.sh, in its folder",
	"./run.sh -v -run TestJoin .":         "needs the components; run.sh hands its arguments to go test",
	".ci/lint":                            "[.ci/run]",
	".ci/run":                             "is what runs this test",
	"go test -run TestX ./plan":           "stands for any test",
	"go run ./examples/internal/screens":  "TestScreens takes the same screens",
	"go build -o nodejoin ./cmd/nodejoin": "is the build of go run, and that with -tags embedagent",
	"NODEJOIN_TEST_RELEASE=1 go test -timeout 1h ./examples/internal/... ./cmd/nodejoin": "CI names the packages",
	"NODEJOIN_CHAOS=20m go test -timeout 40m -run 'TestChaos$' ./cmd/nodejoin":           "CI has 15 seconds of it",
	"examples/policies.md sh 1": "TestPolicies runs the real conftest",
	"cosign sign-blob --yes --bundle prod.sigstore.json prod.tar.release.json": "asks Sigstore; with a " +
		"key it is in TestPrograms, and the script follow_sigstore has a stand-in",
	"cat prod.sigstore.json prod.tar.release.json": "the stand-in in the script follow_sigstore does it",

	"ssh Administrator@10.0.0.21 ver": "asks a real machine; TestOpenSSH logs in at a real sshd",
	"ssh root@10.0.0.31 uname -a":     "asks a real machine; TestOpenSSH logs in at a real sshd",
	"kubectl get nodes -o wide":       "asks a real API server; TestJoinWindowsNode reads the same Node",

	"ARCHITECTURE.md indented 1":        "a picture",
	"ARCHITECTURE.md indented 2":        "a picture; TestImports holds it",
	"examples/operations.md indented 1": "names of files; TestOtherEnvironment and environments.txtar have such plans",
	"examples/operations.md  1":         "a line of sudoers; TestLinuxSudo has it in a real one",
	"examples/language.md":              "TestReferenceIsCurrent: made from plans that tests compile",
}

// TestPageBlocks: every code block of every page is run, parsed or compared by a test, or notRun says why not.
func TestPageBlocks(t *testing.T) {
	needed := map[string]bool{}
	excused := func(what string) bool {
		needed[what] = true
		return notRun[what] != ""
	}
	for _, page := range pages(t) {
		script, err := os.ReadFile("testdata/pages/" + scriptOf(page))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, b := range blocksOf(t, page) {
			var held bool
			switch b.language {
			case "indented":
				for line := range strings.Lines(b.text) {
					line = strings.Join(strings.Fields(comment.ReplaceAllString(strings.TrimSpace(line), "")), " ")
					if line != "" && !strings.HasPrefix(line, "nodejoin ") && !excused(line) && !excused(b.String()) {
						t.Errorf("%s: no test runs %q, and notRun has no reason", b, line)
					}
				}
				continue
			case "":
				held = strings.Contains(string(script), fmt.Sprintf("\nshown %s %d ", page, b.n))
			case "powershell": // TestPowerShell parses them
				held = true
			default:
				held = strings.Contains(string(script), fmt.Sprintf("\nfence %s %s %d ", page, b.language, b.n))
			}
			if !held && !excused(page) && !excused(b.String()) {
				t.Errorf("%s: testdata/pages/%s does not use it, and notRun has no reason:\n%s", b, scriptOf(page), b.text)
			}
		}
	}
	exist := testNames(t)
	for what, why := range notRun {
		if !needed[what] {
			t.Errorf("notRun has %q, which no page needs", what)
		}
		if m := bracketed.FindStringSubmatch(why); m != nil {
			text, err := os.ReadFile(filepath.Join("../..", m[1]))
			words := strings.Fields(what)
			if err != nil || !strings.Contains(string(text), strings.Join(words, " ")) {
				t.Errorf("%s does not run %q (%v)", m[1], what, err)
			}
		}
		for _, name := range testName.FindAllString(why, -1) {
			if !exist[name] {
				t.Errorf("%q: there is no %s", what, name)
			}
		}
	}
}

var (
	bracketed = regexp.MustCompile(`\[(\S+)\]`)
	testName  = regexp.MustCompile(`\bTest[A-Z]\w+`)
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// testNames are the tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := fs.WalkDir(os.DirFS("../.."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
