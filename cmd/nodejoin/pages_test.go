package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// elsewhere maps page commands that cannot run in a script to the test that runs them, or to the reason for none.
var elsewhere = map[string]string{
	"nodejoin fleet apply plans/prod --image registry.example/nodejoin:1.0 --known-hosts ~/.ssh/known_hosts " +
		"--ssh-key ~/.ssh/id_ed25519": "needs a cluster; acceptance test TestFleet",
	"nodejoin fleet status plans/prod":                      "needs a cluster; acceptance test TestFleet",
	"nodejoin fleet logs plans/prod --shard 3":              "needs a cluster; acceptance test TestFleet",
	"nodejoin fleet stop plans/prod":                        "needs a cluster; acceptance test TestFleet",
	"nodejoin follow /etc/nodejoin/follow.json":             "needs a file of root; the script of the page has another",
	"nodejoin doctor --self-test --yes-change-this-machine": "changes the machine; acceptance test TestSelfTest",
}

var (
	fence   = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	typed   = regexp.MustCompile(`(?m)^(?: {4}|\$ )(nodejoin .*)$`)
	comment = regexp.MustCompile(`\s+#.*| > \S+$`)
	ran     = regexp.MustCompile(`(?m)^(?:exec|exit [0-9]+) (?:sh -c ')?(nodejoin .*?)'?$`)
)

// TestPages runs the commands of the pages against sandboxes, and compares their output
// with the screens on the pages.
func TestPages(t *testing.T) {
	params := scriptParams("testdata/pages")
	for name, cmd := range map[string]func(*testscript.TestScript, bool, []string){
		"shown": cmdShown, "fence": cmdFence, "digest": cmdDigest, "sandboxed": cmdSandboxed, "pipeline": cmdPipeline,
	} {
		params.Cmds[name] = cmd
	}
	params.Setup = setupPages
	testscript.Run(t, params)
}

// setupPages is setup for scripts of pages, whose plans may have hosts over SSH.
func setupPages(e *testscript.Env) error {
	if err := setup(e); err != nil {
		return err
	}
	caches, err := goCaches() // such a plan has the agent in it, which go build makes
	if err != nil {
		return err
	}
	for name, dir := range caches {
		e.Setenv(name, dir)
	}
	for _, name := range []string{"quickstart", "ci"} {
		if err := copyExample(os.DirFS("../../examples/"+name), filepath.Join(e.WorkDir, "examples", name)); err != nil {
			return err
		}
	}
	return nil
}

// TestPageCommands: the script of a page, testdata/pages/NAME.txtar, runs every command of the page, in its order.
func TestPageCommands(t *testing.T) {
	pages := []string{"../../README.md"}
	for _, pattern := range []string{"../../examples/*.md", "../../examples/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 12 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	for _, file := range pages {
		page := filepath.ToSlash(strings.TrimPrefix(file, "../../"))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script, err := os.ReadFile("testdata/pages/" + scriptOf(page))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		var have []string
		for _, m := range ran.FindAllStringSubmatch(string(script), -1) {
			have = append(have, strings.Join(strings.Fields(m[1]), " "))
		}
		for _, m := range typed.FindAllStringSubmatch(string(text), -1) {
			want := strings.Join(strings.Fields(comment.ReplaceAllString(m[1], "")), " ")
			if elsewhere[want] != "" {
				continue
			}
			at := -1
			for i, c := range have {
				if c == want {
					at = i
					break
				}
			}
			if at < 0 {
				t.Errorf("%s: testdata/pages/%s does not run, after the commands before it:\n  %s", page, scriptOf(page), want)
				continue
			}
			have = have[at+1:]
		}
	}
}

// TestReadmeIsShort: README is one screen of prose.
func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(text))); n > 900 {
		t.Errorf("README has %d words, want at most 900: move what a newcomer does not need to a page of examples", n)
	}
}

// scriptOf is the name of a page's script: examples/ci/README.md has ci.txtar.
func scriptOf(page string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(page, "examples/"), ".md")
	return strings.TrimSuffix(name, "/README") + ".txtar"
}

// fenced is the text of a page's n-th fenced block in a language, from 1.
func fenced(ts *testscript.TestScript, page, language, n string) string {
	text, err := os.ReadFile(filepath.Join(ts.Getenv("REPOSITORY"), page))
	ts.Check(err)
	i := 0
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			if i++; fmt.Sprint(i) == n {
				return m[2]
			}
		}
	}
	ts.Fatalf("%s has %d blocks in %q, no block %s", page, i, language, n)
	return ""
}

// cmdFence writes a block of a page into a file. It replaces the HCL block with the same first line, or appends.
// fence PAGE LANGUAGE N FILE
func cmdFence(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: fence PAGE LANGUAGE N FILE")
	}
	text, block := ts.ReadFile(args[3]), fenced(ts, args[0], args[1], args[2])
	head, _, _ := strings.Cut(block, "{")
	old := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(head) + `\{(.+\}$|$(?s:.*?)^\}$)`)
	if at := old.FindStringIndex(text); at != nil {
		text = text[:at[0]] + strings.TrimSuffix(block, "\n") + text[at[1]:]
	} else {
		text += block
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), []byte(text), 0o666))
}

// cmdDigest sets a variable to the SHA-256 of a file: digest FILE VARIABLE
func cmdDigest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: digest FILE VARIABLE")
	}
	ts.Setenv(args[1], fmt.Sprintf("%x", sha256.Sum256([]byte(ts.ReadFile(args[0])))))
}

var (
	// took matches durations and times of day, which differ between runs.
	took   = regexp.MustCompile(`\b[0-9.]+(ms|s|m)\b|\b20[0-9-]+T[0-9:.]+Z\b`)
	digits = regexp.MustCompile(`[0-9]+`)
)

// cmdShown checks that the lines of a page's n-th screen (a fenced block without a language) are in a file in
// that order; a line [...] matches any lines, and a line that begins with $ is a command: shown PAGE N FILE.
// UPDATE_SCRIPTS=1 rewrites stale numbers on the page.
func cmdShown(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: shown PAGE N FILE")
	}
	plain := func(s string) string { return took.ReplaceAllString(strings.TrimRight(s, " "), "TIME") }
	same := func(have, want string) bool { return plain(have) == plain(want) }
	if updateScripts {
		same = func(have, want string) bool {
			return digits.ReplaceAllString(plain(have), "0") == digits.ReplaceAllString(plain(want), "0")
		}
	}
	screen := fenced(ts, args[0], "", args[1])
	shown := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	lines, gap := strings.Split(ts.ReadFile(args[2]), "\n"), true
	for i, want := range shown {
		if want == "" || want == "[...]" || strings.HasPrefix(want, "$ ") {
			gap = gap || want != ""
			continue
		}
		at := 0
		for at < len(lines) && (gap || lines[at] == "") && !same(lines[at], want) {
			at++
		}
		if at >= len(lines) || !same(lines[at], want) {
			ts.Fatalf("%s, screen %s: the output lacks, at this place:\n%s\n\nthe rest of the output:\n%s", args[0], args[1],
				want, strings.Join(lines, "\n"))
		}
		if plain(lines[at]) != plain(want) {
			shown[i] = lines[at]
		}
		lines, gap = lines[at+1:], false
	}
	if now := strings.Join(shown, "\n") + "\n"; now != screen {
		file := filepath.Join(ts.Getenv("REPOSITORY"), args[0])
		text, err := os.ReadFile(file)
		ts.Check(err)
		ts.Check(os.WriteFile(file, []byte(strings.Replace(string(text), screen, now, 1)), 0o666))
	}
}

var (
	overSSH       = regexp.MustCompile(`(?s)connection "ssh" \{.*?\n {2}\}`)
	ownKubeconfig = regexp.MustCompile(`(?m)^ *kubeconfig *=.*$`)
)

// cmdSandboxed puts simulated machines and a simulated cluster into a plan that init wrote: sandboxed FILE
func cmdSandboxed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sandboxed FILE")
	}
	text := ts.ReadFile(args[0])
	if !overSSH.MatchString(text) || !ownKubeconfig.MatchString(text) {
		ts.Fatalf("%s has no host over SSH or no kubeconfig", args[0])
	}
	text = overSSH.ReplaceAllString(text, `connection "sandbox" {
    path = ".sandbox/$${each.key}"
    ip   = each.value
  }`)
	text = ownKubeconfig.ReplaceAllString(text, `  sandbox    = ".sandbox/cluster"`)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}
