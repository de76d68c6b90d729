package compat

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed data/feature_gates.txt
var gatesText string

// Stage of a feature gate, as Kubernetes names it.
type Stage string

const (
	Alpha      Stage = "alpha"
	Beta       Stage = "beta"
	GA         Stage = "ga"
	Retiring   Stage = "deprecated"
	NoSuchGate Stage = ""
)

type gateSpec struct {
	since      line
	stage      Stage
	on, locked bool
}

type gateRow struct {
	specs   []gateSpec // rising
	removed line
}

type gateTable struct {
	names []string // sorted
	rows  map[string]gateRow
}

var gates = sync.OnceValue(func() gateTable { return readGates(gatesText) })

func readGates(text string) gateTable {
	t := gateTable{rows: map[string]gateRow{
		// k8s.io/component-base/featuregate adds these two to every set; AllBeta came with 1.17.
		"AllAlpha": {specs: []gateSpec{{since: since1_14, stage: Alpha}}},
		"AllBeta":  {specs: []gateSpec{{since: line{1, 17}, stage: Beta}}},
	}}
	for _, f := range dataRows(text) {
		f = append(f, "", "")
		var row gateRow
		row.removed, _ = parseLine(f[2])
		for _, s := range strings.Split(f[1], "; ") {
			words := append(strings.Fields(s), "", "", "", "")
			since, _ := parseLine(words[0])
			row.specs = append(row.specs,
				gateSpec{since: since, stage: Stage(words[1]), on: words[2] == "on", locked: words[3] == "locked"})
		}
		t.rows[f[0]] = row
	}
	for name := range t.rows {
		t.names = append(t.names, name)
	}
	slices.Sort(t.names)
	return t
}

// Gate says how a feature gate stands in a version. Stage, Default and Locked
// are meaningful when Status is OK, Deprecated or Refused.
type Gate struct {
	Verdict
	Stage   Stage
	Default bool
	Locked  bool // only the default may be given
}

// CheckGate reports whether kubelet and kube-proxy of a Kubernetes version know a feature gate and accept the
// value. Both know the same gates. An unknown gate ends the program ("unrecognized feature gate"), and so
// does a value other than a locked default. A Deprecated or GA gate is accepted with a warning. Names are
// case-sensitive.
//
// Source: the gate tables of Kubernetes and its libraries of each minor version from 1.14 to 1.37 (see
// gen.go).
func CheckGate(gate string, value bool, version string) Gate {
	g := lookupGate(gate, version)
	if g.Stage == NoSuchGate {
		return g
	}
	if g.Locked && value != g.Default {
		g.Status = Refused
		g.Why = fmt.Sprintf("the gate is locked to %t", g.Default)
		g.Instead = "leave it out"
		return g
	}
	switch g.Stage {
	case Retiring:
		g.Status, g.Why, g.Instead = Deprecated, "the gate is deprecated", "leave it out"
	case GA:
		g.Status, g.Why, g.Instead = Deprecated, "the feature is generally available, and the gate will be removed",
			"leave it out"
	}
	return g
}

func lookupGate(gate, version string) Gate {
	g := Gate{Verdict: Verdict{Name: gate,
		Source: "kubernetes sources of each minor version, pkg/features and libraries (data/feature_gates.txt)"}}
	l, note, ok := minorLine("Kubernetes", version, since1_14, kubernetesNewest)
	if !ok {
		return Gate{Verdict: noVersion(gate, version)}
	}
	g.Assumed = note
	t := gates()
	row, known := t.rows[gate]
	if !known {
		g.Status = Unknown
		g.Why = fmt.Sprintf("there is no such feature gate in any version from 1.14 to %s", kubernetesNewest)
		g.Instead = nearest(gate, t.names)
		return g
	}
	if first := row.specs[0].since; first != since1_14 {
		g.Since = first.String()
	}
	g.Until = row.removed.text()
	if row.removed != (line{}) && !l.less(row.removed) {
		last := row.specs[len(row.specs)-1]
		g.Status, g.Instead = Removed, "leave it out"
		g.Why = fmt.Sprintf("the gate was removed in %s; the program would refuse to start", row.removed)
		if last.stage == GA && last.on {
			g.Why = fmt.Sprintf("the feature is always on since %s, and the gate was removed in %s; the program would refuse "+
				"to start", last.since, row.removed)
		}
		return g
	}
	for i := len(row.specs) - 1; i >= 0; i-- {
		if s := row.specs[i]; !l.less(s.since) {
			g.Stage, g.Default, g.Locked = s.stage, s.on, s.locked
			return g
		}
	}
	g.Status, g.Why = NotYet, fmt.Sprintf("the gate is added in %s", row.specs[0].since)
	return g
}
