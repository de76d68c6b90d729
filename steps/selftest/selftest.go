// Package selftest makes the calls that nodejoin makes on a machine, on things of its own, and reports what the
// machine does. It removes what it makes, and compares the machine with how it was before.
//
// Each result says which claim about Windows it is about: the numbered table of examples/proof.md.
package selftest

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// areas in their order. Network interrupts nothing but comes last: if it is wrong about the loopback adapter, the
// rest has been seen.
var areas = []struct {
	name string
	os   string // "" = any
	run  func(t *test)
}{
	{"machine", "", (*test).machine},
	{"files", "", (*test).files},
	{"programs", "", (*test).programs},
	{"services", "", (*test).services},
	{"registry", "windows", (*test).registry},
	{"environment", "windows", (*test).environment},
	{"firewall", "windows", (*test).firewall},
	{"features", "windows", (*test).features},
	{"ports", "windows", (*test).ports},
	{"authorities", "", (*test).authorities},
	{"kernel", "linux", (*test).kernel},
	{"events", "windows", (*test).events},
	{"ssh", "windows", (*test).ssh},
	{"shutdown", "windows", (*test).shutdown},
	{"network", "windows", (*test).network},
}

// Areas are the parts of the test, in their order.
func Areas() (names []string) {
	for _, a := range areas {
		names = append(names, a.name)
	}
	return names
}

// Run tests a machine. What an interrupted run left is removed first. It fails only where the machine cannot be
// described; all else is a result.
func Run(ctx context.Context, h host.Host, req Request) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	facts, err := h.Facts(ctx)
	if err != nil {
		return Report{}, err
	}
	t := &test{host: h, facts: facts, run: ctx, dir: host.Join(facts.OS, facts.DataDir, "selftest")}
	t.report = Report{Version: Version, Build: strings.TrimPrefix(facts.Build, "10.0."), Edition: facts.Product,
		Nodejoin: "(devel)", Time: time.Now().UTC().Truncate(time.Second), Results: []Result{}}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		t.report.Nodejoin = info.Main.Version
	}
	if err := t.clean(ctx); err != nil {
		return Report{}, fmt.Errorf("what an earlier self-test left cannot be removed: %w", err)
	}
	if facts.OS == "windows" {
		t.native, t.nativeWhy = t.isThisMachine(ctx)
		t.describe(ctx)
	}
	// The first look at the store of authorities can fill it.
	if ca, err := authority(); err == nil {
		_, _ = t.host.TrustedCA(ctx, ca) // the area authorities reports an error
	}
	before := t.snapshot(ctx)
	for _, a := range areas {
		if (a.os == "" || a.os == facts.OS) && (len(req.Areas) == 0 || slices.Contains(req.Areas, a.name)) {
			t.area(a.name, a.run) //nolint:contextcheck // t has it
		}
	}
	// The connection that asked may have ended; the machine is looked at all the same.
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), perUndo)
	defer stop()
	if err := t.clean(last); err != nil {
		t.report.Differs = append(t.report.Differs, err.Error())
	}
	t.report.Differs = append(t.report.Differs, differences(before, t.snapshot(last))...)
	t.report.AsBefore = len(t.report.Differs) == 0
	return t.report, ctx.Err()
}
