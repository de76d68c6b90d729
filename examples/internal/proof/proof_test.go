package proof

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"nodejoin/examples/internal/exampletest"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/selftest"
)

var update = flag.Bool("update", false, "write proof.md")

const examples = "../.."

// TestCurrent: proof.md matches the files of evidence, and each of them can be read.
func TestCurrent(t *testing.T) {
	list, err := Load(os.DirFS(filepath.Join(examples, "evidence")))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(examples, "proof.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Replace(string(page), list)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Error("proof.md is not current: go generate ./examples/internal/proof")
	}
}

// TestClaims: each test that a claim names exists. Each claim is tested on a machine or gives a reason why not.
func TestClaims(t *testing.T) {
	tests := exampletest.TestNames(t, filepath.Join(examples, ".."))
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var results []selftest.Result
	for _, shell := range []string{"cmd.exe", "PowerShell.exe"} {
		v := host.RegistryValue{Type: "string", String: `C:\` + shell}
		if err := h.SetRegistryValue(t.Context(), `HKLM\SOFTWARE\OpenSSH`, "DefaultShell", v); err != nil {
			t.Fatal(err)
		}
		report, err := selftest.Run(t.Context(), h, selftest.Request{})
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, report.Results...)
	}
	for i, c := range Claims {
		for _, name := range c.Tests {
			if !tests[name] {
				t.Errorf("claim %d: there is no test %s", i+1, name)
			}
		}
		if (c.SelfTest == "") == (c.Why == "") {
			t.Errorf("claim %d: want an area of the self-test, or a reason for none: %+v", i+1, c)
		}
		if c.SelfTest != "" && !slices.ContainsFunc(results, func(r selftest.Result) bool {
			return r.Claim == i+1 && r.Area == c.SelfTest
		}) {
			t.Errorf("claim %d: the area %s of the self-test does not test it", i+1, c.SelfTest)
		}
	}
}

const good = `{"version":1,"build":"20348.1","language":"ko-KR","edition":"Windows Server","nodejoin":"v1","run":"",
"time":"2026-01-02T03:04:05Z","as_before":true,"results":[
{"area":"services","name":"a","claim":2,"outcome":"as expected","seen":"x | y"},
{"area":"network","name":"b","claim":1,"outcome":"otherwise","seen":""},
{"area":"join","name":"c","claim":10,"outcome":"as expected","seen":""}]}`

// TestPage: the page shows the content of a file of evidence.
func TestPage(t *testing.T) {
	if page := Markdown(nil); !strings.Contains(page, "no file of evidence") || strings.Contains(page, "as expected |") {
		t.Error(page)
	}
	list, err := Load(fstest.MapFS{"20348.1-ko-KR.json": {Data: []byte(good)},
		"20348.1-ko-KR-win-1.json": {Data: []byte(strings.Replace(good, `"run":""`, `"run":"https://x.example/1"`, 1))}})
	if err != nil {
		t.Fatal(err)
	}
	page := Markdown(list)
	for _, want := range []string{
		"| Windows Server, 20348.1, ko-KR | [20348.1-ko-KR.json](evidence/20348.1-ko-KR.json) | v1 | 2 | 1 | 0 | yes |",
		"[run](https://x.example/1)", "20348.1 ko-KR: 1 otherwise; ", "20348.1 ko-KR: 1 as expected; "} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page:\n%s", want, page)
		}
	}
	if _, err := Replace("a page", list); err == nil {
		t.Error("a page without a place was accepted")
	}
}

// TestLoadRefuses: a file that no self-test could have written is refused.
func TestLoadRefuses(t *testing.T) {
	for _, change := range [][2]string{{`"version":1`, `"version":2`}, {`"run":""`, `"ran":""`}, {"otherwise", "fine"},
		{"ko-KR", "en-US"}, {`"run":""`, `"run":"javascript:x"`}, {"2026-01-02T", "2026 "}, {"{", "["},
		{`"as_before":true`, `"as_before":false`}, {`"claim":2`, `"claim":99`}, {`"services"`, `"printer"`},
		{`"edition":"Windows Server"`, `"edition":""`}} {
		text := strings.Replace(good, change[0], change[1], 1)
		if _, err := Load(fstest.MapFS{"20348.1-ko-KR.json": {Data: []byte(text)}}); err == nil {
			t.Errorf("%q for %q was accepted", change[1], change[0])
		}
	}
}
