package ui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, ümläut, 日本": "plain text, ümläut, 日本",
		"two\nlines\tand a tab":  "two\nlines\tand a tab",
		"a\r\nb":                 "a\nb",
		"a\rb":                   `a\x0db`,
		"\x1b[31mred\x1b[0m":     `\x1b[31mred\x1b[0m`,
		"bell\a nul\x00 del\x7f": `bell\x07 nul\x00 del\x7f`,
		"c1 \u009b2J":            `c1 \x9b2J`,
		"abc\u202etxt.exe":       `abc\u202etxt.exe`,
		"\u2066x\u2069":          `\u2066x\u2069`,
		"\ufeffbom":              `\ufeffbom`,
		"broken \xff":            `broken \ufffd`,
	} {
		if have := Clean(in); have != want {
			t.Errorf("Clean(%q): have %q, want %q", in, have, want)
		}
	}
	if have, want := CleanLine(" one\ntwo\r\nthree\n"), `one\ntwo\nthree`; have != want {
		t.Errorf("CleanLine: have %q, want %q", have, want)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in, indent string
		width      int
		want       string
	}{
		{"short", "", 40, "short"},
		{"one two three four five six seven", "", 24, "one two three four five\nsix seven"},
		{"one two three four five six seven", "  ", 26, "  one two three four five\n  six seven"},
		{"its own\n\nline feeds", "", 40, "its own\n\nline feeds"},
		{"a " + strings.Repeat("x", 30) + " b", "", 24, "a\n" + strings.Repeat("x", 30) + "\nb"},
		{"never narrower than twenty-four", "", 3, "never narrower than\ntwenty-four"},
		{"äöü äöü äöü äöü äöü äöü x", "", 25, "äöü äöü äöü äöü äöü äöü x"},
	} {
		if have := Wrap(c.in, c.indent, c.width); have != c.want {
			t.Errorf("Wrap(%q, %q, %d):\nhave %q\nwant %q", c.in, c.indent, c.width, have, c.want)
		}
	}
	if have, want := Cut("abcdefgh", 6), "abc..."; have != want {
		t.Errorf("Cut: have %q, want %q", have, want)
	}
}

func TestWriteProblem(t *testing.T) {
	src := "node \"a\" {\n\tkubernets = \"1.36.3\"\n}\n"
	rng := hcl.Range{Filename: "x.join.hcl", Start: hcl.Pos{Line: 2, Column: 2, Byte: 11},
		End: hcl.Pos{Line: 2, Column: 11, Byte: 20}}
	problem := FromHCL(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "unknown argument", Subject: &rng,
		Detail: "There is no argument \"kubernets\" here. Did you mean \"kubernetes\"? " +
			"It is the version that the node's programs have."}})[0]
	failure := Problem{Level: "error", Summary: "the service ended by itself", Host: "win-1, win-2", Step: "kubelet",
		Source: "x.join.hcl:62,1",
		Detail: "exit code 1\n\x1b[2Jfrom the host",
		Remedy: "read its log; a wrong flag or configuration is the usual cause"}
	for _, c := range []struct {
		name  string
		p     Problem
		width int
		want  string
	}{
		{"plan at 60", problem, 60, `| Error: unknown argument
|   on x.join.hcl line 2:
|    2: 	kubernets = "1.36.3"
|       	^^^^^^^^^
|
| There is no argument "kubernets" here. Did you mean
| "kubernetes"? It is the version that the node's programs
| have.

`},
		{"plan at 100", problem, 100, `| Error: unknown argument
|   on x.join.hcl line 2:
|    2: 	kubernets = "1.36.3"
|       	^^^^^^^^^
|
| There is no argument "kubernets" here. Did you mean "kubernetes"? It is the version that the
| node's programs have.

`},
		{"run at 60", failure, 60, `| Error: the service ended by itself
|   hosts win-1, win-2, step kubelet, declared at
|   x.join.hcl:62,1
|
| exit code 1
| \x1b[2Jfrom the host
|
| What to do: read its log; a wrong flag or configuration is
| the usual cause

`},
	} {
		var b strings.Builder
		WriteProblem(&b, c.p, map[string]*hcl.File{"x.join.hcl": {Bytes: []byte(src)}}, false, c.width)
		if b.String() != c.want {
			t.Errorf("%s:\nhave\n%s\nwant\n%s", c.name, b.String(), c.want)
		}
	}
}

func TestFold(t *testing.T) {
	ps := Fold([]Problem{{Host: "a", Step: "x", Summary: "s"}, {Host: "b", Step: "x", Summary: "s"},
		{Host: "c", Step: "y", Summary: "s"}, {Summary: "no host"}, {Summary: "no host"}})
	var have []string
	for _, p := range ps {
		have = append(have, p.Host+"/"+p.Step)
	}
	if want := "a, b/x c/y / /"; strings.Join(have, " ") != want {
		t.Errorf("have %q, want %q", strings.Join(have, " "), want)
	}
}

func TestLinesQuiet(t *testing.T) {
	var b strings.Builder
	d := NewDisplay("quiet", &Term{Err: &b}, Work{})
	d.Emit(event.HostState{Host: "a", State: "connecting"})
	d.Emit(event.StepDone{Host: "a", Step: "dir", Result: "changed", Action: "create"})
	d.Emit(event.StepDone{Host: "a", Step: "svc", Result: "failed", Summary: "no"})
	d.Close()
	if have, want := b.String(), "a: x svc: no\n"; have != want {
		t.Errorf("have %q, want %q", have, want)
	}
}

func TestReflow(t *testing.T) {
	const text = "one two three\nfour five\n\n  a list that is as it is, whatever its width\nsix"
	want := "one two three four five\n\n  a list that is as it is, whatever its width\nsix"
	if have := Reflow(text, 30); have != want {
		t.Errorf("30 columns:\n%s\nwant\n%s", have, want)
	}
	have, want := Columns("leave", "removes nodes from the cluster", 8, 42), "  leave    removes nodes from the cluster\n"
	if have != want {
		t.Errorf("a wide list: %q", have)
	}
	if have := Columns("completion", "what is completed", 8, 40); have != "  completion\n           what is completed\n" {
		t.Errorf("a long name: %q", have)
	}
}

// A table that is wider than the terminal prints its columns below each other.
func TestTable(t *testing.T) {
	rows := [][]string{{"NODE", "STATE", "SYSTEM"}, {"win-1", "in sync", "Windows Server 2022 Datacenter"},
		{"ä", "drifted", "-"}}
	for limit, want := range map[int]string{
		0:  "NODE   STATE    SYSTEM\nwin-1  in sync  Windows Server 2022 Datacenter\nä      drifted  -\n",
		46: "NODE   STATE    SYSTEM\nwin-1  in sync  Windows Server 2022 Datacenter\nä      drifted  -\n",
		45: "win-1\n  STATE   in sync\n  SYSTEM  Windows Server 2022 Datacenter\nä\n  STATE   drifted\n  SYSTEM  -\n",
		34: "win-1\n  STATE   in sync\n  SYSTEM  Windows Server 2022\n          Datacenter\n" +
			"ä\n  STATE   drifted\n  SYSTEM  -\n",
	} {
		var b strings.Builder
		if err := Table(&b, limit, rows); err != nil || b.String() != want {
			t.Errorf("%d columns: %v\n%s", limit, err, b.String())
		}
	}
}

// Lines that begin with a space are commands to copy, and are not wrapped.
func TestFit(t *testing.T) {
	text := "nodejoin: one, two, three and four words\n  nodejoin validate plans/production/cluster"
	for width, want := range map[int]string{
		0:  text,
		30: "nodejoin: one, two, three and\nfour words\n  nodejoin validate plans/production/cluster",
	} {
		if have := Fit(text, width); have != want {
			t.Errorf("%d columns:\n%s", width, have)
		}
	}
}

// A plan shows an upgrade, its effects and its interruption before the steps.
func TestWritePlanUpgrade(t *testing.T) {
	var b bytes.Buffer
	WritePlan(&b, &engine.Report{Hosts: []engine.HostReport{{
		Node: plan.Node{Name: "win-1"}, KubeNode: &kube.Node{Ready: true},
		Upgrade:      &engine.Upgrade{From: "1.35.4", To: "1.36.3", Notes: []string{"kubelet: flag --old dropped: removed"}},
		Interruption: &engine.Interruption{Services: []string{"kubelet", "containerd"}, Evict: []string{"d/one", "d/two"}},
		Steps: []engine.StepReport{{Spec: steps.Spec{ID: "kubelet", Title: "Kubelet"},
			Result: steps.Result{Change: steps.Change{Action: steps.ActionUpdate}}}},
	}}}, PlanOptions{Width: 200})
	text := b.String()
	at := -1
	for _, want := range []string{
		"^ upgrade of Kubernetes: 1.35.4 -> 1.36.3\n",
		"kubelet: flag --old dropped: removed\n",
		"if a step fails, the changes are rolled back to 1.35.4\n",
		"! interruption: the Node is cordoned, 2 pods evicted (d/one, d/two), kubelet and containerd stop and start; " +
			"then it takes pods again\n",
		"~ kubelet Kubelet\n",
	} {
		if i := strings.Index(text, want); i <= at {
			t.Errorf("%q is missing or misplaced", want)
		} else {
			at = i
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
