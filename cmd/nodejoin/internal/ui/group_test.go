package ui

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
	"nodejoin/steps/record"
	"nodejoin/steps/transport"
)

func TestFewNames(t *testing.T) {
	for want, names := range map[string][]string{
		"":                                nil,
		"win-1, win-2":                    {"win-2", "win-1"},
		"win-8 to win-11":                 {"win-10", "win-11", "win-8", "win-9"},
		"lin-008 to lin-010":              {"lin-008", "lin-009", "lin-010"},
		"a, b-1 to b-3 and 3 more":        {"a", "b-1", "b-2", "b-3", "c", "d", "e"},
		"n09, n9, n10":                    {"n9", "n10", "n09"},
		"x, x99999999999999999999":        {"x99999999999999999999", "x"},
		"rack1-1, rack1-2, rack2-1":       {"rack1-1", "rack2-1", "rack1-2"},
		"w-1, w-3, w-5 to w-7 and 1 more": {"w-1", "w-3", "w-5", "w-6", "w-7", "w-9"},
	} {
		most := 2 + strings.Count(want, ", ")
		if strings.Contains(want, "more") {
			most--
		}
		if have := FewNames(names, most); have != want {
			t.Errorf("%q: %q, want %q", names, have, want)
		}
	}
}

// hostOf is a host of a group with a change whose text has names and addresses.
func hostOf(n int, reason string, diffs ...steps.Diff) engine.HostReport {
	name := fmt.Sprintf("win-%d", n)
	return engine.HostReport{
		Node: plan.Node{Name: name, Connection: plan.Connection{Type: "ssh", SSH: &plan.SSH{Host: name +
			".example"}}},
		Facts: host.Facts{Hostname: strings.ToUpper(name), ManagementIP: fmt.Sprintf("192.0.2.%d", n),
			Build: "10.0.20348"},
		KubeNode:     &kube.Node{PodCIDR: fmt.Sprintf("10.244.%d.0/24", n), Ready: true},
		Interruption: &engine.Interruption{Services: []string{"kubelet"}, Evict: []string{fmt.Sprintf("d/pod-%d", n)}},
		Steps: []engine.StepReport{{Spec: steps.Spec{ID: "step", Title: "Step"},
			Result: steps.Result{Change: steps.Change{Action: steps.ActionUpdate, Reason: reason, Diffs: diffs}}}},
	}
}

func planText(o PlanOptions, hosts ...engine.HostReport) string {
	var b bytes.Buffer
	WritePlan(&b, &engine.Report{Hosts: hosts}, o)
	return b.String()
}

// Hosts form a group if they differ only in their own names and addresses.
func TestGroups(t *testing.T) {
	own := func(n int) string {
		return fmt.Sprintf("win-%d.example WIN-%d 192.0.2.%d 10.244.%d.0/24 10.244.%d.7 system:node:win-%d", n, n, n,
			n, n, n)
	}
	pem := func(s string) steps.Diff {
		return steps.Diff{Name: "ca", Text: true, Want: "a",
			Have: "-----BEGIN CERTIFICATE-----\n" + s + "\n-----END CERTIFICATE-----\n"}
	}
	for name, c := range map[string]struct {
		a, b   engine.HostReport
		groups int
	}{
		"own names and addresses": {hostOf(1, own(1)), hostOf(2, own(2)), 1},
		"certificates":            {hostOf(1, "", pem("MIIA")), hostOf(2, "", pem("MIIB")), 1},
		"a name of another":       {hostOf(1, own(1)), hostOf(2, own(3)), 2},
		"a part of a word":        {hostOf(1, "xwin-1"), hostOf(2, "xwin-2"), 2},
		"an address of others":    {hostOf(1, "198.51.100.1"), hostOf(2, "198.51.100.2"), 2},
		"another file": {hostOf(1, "", steps.Diff{Name: "f", Want: "1"}), hostOf(2, "",
			steps.Diff{Name: "f", Want: "2"}), 2},
	} {
		if have := len(groups([]engine.HostReport{c.a, c.b}, PlanOptions{Width: 80})); have != c.groups {
			t.Errorf("%s: %d groups, want %d\n%s", name, have, c.groups, planText(PlanOptions{Width: 80}, c.a, c.b))
		}
	}
	text := planText(PlanOptions{Width: 200}, hostOf(1, own(1)), hostOf(2, own(2)))
	for _, want := range []string{"win-1, win-2  ssh, 10.0.20348\n", "2 pods evicted from 2 Nodes (d/pod-1, d/pod-2)",
		"<address> <hostname> <address> <pod network> <address in the pod network> system:node:<node>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := planText(PlanOptions{Width: 200}, hostOf(1, own(1))); !strings.Contains(text, own(1)) {
		t.Errorf("a single host:\n%s", text)
	}
}

// Interruptions come first, then changes, then additions.
func TestGroupOrder(t *testing.T) {
	calm, new := hostOf(1, "restarts nothing"), hostOf(2, "new")
	calm.Interruption, new.Interruption = nil, nil
	calm.Steps[0].Result.Change.Action, new.Steps[0].Result.Change.Action = steps.ActionRestart, steps.ActionCreate
	text := planText(PlanOptions{Width: 80}, new, calm, hostOf(3, "loud"))
	at := []int{strings.Index(text, "win-3"), strings.Index(text, "win-1"), strings.Index(text, "win-2"),
		strings.Index(text, "Plan on 3 hosts: 1 to restart, 1 to update, 1 to create.")}
	for i, n := range at {
		if n < 0 || i > 0 && n < at[i-1] {
			t.Fatalf("the order is %v:\n%s", at, text)
		}
	}
}

// No line of a plan is wider than the terminal, and a wrapped line keeps its indentation.
func TestPlanWidths(t *testing.T) {
	long := strings.Repeat("0123456789", 20)
	h := hostOf(1, strings.Repeat("a reason with many words ", 10), steps.Diff{Name: "attribute", Have: long,
		Want: "two words"},
		steps.Diff{Name: "file", Text: true, Have: "one\n", Want: long + "\n"})
	for _, color := range []bool{false, true} {
		for _, width := range []int{60, 80, 120} {
			for l := range strings.Lines(planText(PlanOptions{Width: width, Limit: width, Color: color}, h)) {
				l = strings.TrimSuffix(escapes.ReplaceAllString(l, ""), "\n")
				if len([]rune(l)) > width {
					t.Errorf("%d columns: a line has %d: %s", width, len([]rune(l)), l)
				}
				if strings.Contains(l, "0123") && !strings.HasPrefix(l, "      ") {
					t.Errorf("%d columns: a part of a diff is not indented: %s", width, l)
				}
			}
		}
	}
}

// TestStatus: a node takes one line at every width, the totals count all nodes, and --only leaves nodes out.
func TestStatus(t *testing.T) {
	a, b, c := hostOf(1, ""), hostOf(2, ""), hostOf(3, "")
	a.Steps, c.Err = nil, &transport.ConnectError{Reason: transport.ReasonUnreachable}
	written := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	b.Last = &executor.RunNote{Ended: written, Result: "done"}
	b.Steps[0].Spec.ID = "a_step_with_a_long_name"
	b.Steps[0].Result.Change.Since = &written
	a.Facts.Product, b.Facts.Product = "Windows Server 2022 Datacenter", "Windows Server 2025"
	r := &engine.Report{Hosts: []engine.HostReport{a, b, c}, Former: []kube.Node{{Name: "old",
		KubeletVersion: "v1.35.0"}}}
	show := func(limit int, only ...string) []string {
		var out bytes.Buffer
		if err := WriteStatus(&out, r, only, limit); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	for _, limit := range []int{0, 60, 80, 120, 200} {
		lines := show(limit)
		if len(lines) != 6 && limit >= 80 {
			t.Errorf("%d columns: %d lines\n%s", limit, len(lines), strings.Join(lines, "\n"))
		}
		for _, l := range lines {
			if limit > 0 && len([]rune(l)) > limit {
				t.Errorf("%d columns: a line has %d: %s", limit, len([]rune(l)), l)
			}
		}
	}
	text := strings.Join(show(80), "\n")
	for _, want := range []string{"NODE   STATE", "LAST CHANGED", "a_step_with", "2026-01-02T03:04Z done",
		"\n4 nodes: 1 in sync, 1 drifted, 1 unreachable, 1 foreign."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if lines := show(80, "drifted", "unreachable"); len(lines) != 4 || !strings.HasPrefix(lines[1], "win-2") ||
		!strings.HasPrefix(lines[2], "win-3") || !strings.HasPrefix(lines[3], "4 nodes: ") {
		t.Errorf("--only:\n%s", strings.Join(lines, "\n"))
	}
	if lines := show(80, "failed"); len(lines) != 1 {
		t.Errorf("no node:\n%s", strings.Join(lines, "\n"))
	}
}

// A problem that many hosts share names them in a line or two.
func TestProblemOfManyHosts(t *testing.T) {
	var ps []Problem
	for i := range 50 {
		ps = append(ps, Problem{Level: "error", Summary: "interrupted", Host: fmt.Sprintf("win-%d", i+1)})
	}
	var b bytes.Buffer
	for _, p := range Fold(ps) {
		WriteProblem(&b, p, nil, false, 80)
	}
	if want := "| Error: interrupted\n|   hosts win-1 to win-50\n\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// Removed values of one registry key are counted and a few are shown. Values that stay are shown although nothing
// changes.
func TestRemovalsInGroups(t *testing.T) {
	gone := func(name string) executor.Removal {
		return executor.Removal{Key: record.Registry.Of(name), Change: steps.Change{Action: steps.ActionRemove}}
	}
	h := hostOf(1, "")
	h.Steps, h.Interruption = nil, nil
	for _, name := range []string{"Application", "AppParameters", "AppStdout", "AppStderr"} {
		h.Removals.Items = append(h.Removals.Items, gone(`HKLM\S\kubelet\Parameters\`+name))
	}
	h.Removals.Items = append(h.Removals.Items, gone(`HKLM\S\Site\A`),
		executor.Removal{Key: record.File.Of(`C:\x`), Left: "it was changed since"})
	text := planText(PlanOptions{Width: 200}, h)
	for _, want := range []string{"- 4 registry values of HKLM\\S\\kubelet\\Parameters\n",
		"- registry value HKLM\\S\\Site\\A\n", "file C:\\x stays: it was changed since\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want %q exactly once in\n%s", want, text)
		}
	}
	if strings.Contains(text, "AppStdout") {
		t.Errorf("a value that should only be counted is shown:\n%s", text)
	}
	h.Removals.Items = h.Removals.Items[5:]
	if text := planText(PlanOptions{Width: 200}, h); !strings.Contains(text, "stays: it was changed since") {
		t.Errorf("the values that stay are not shown:\n%s", text)
	}
}
