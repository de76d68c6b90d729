package eval

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
)

// Diags collects diagnostics, each once. A block that is evaluated for many nodes
// finds the same mistake many times.
type Diags struct {
	List hcl.Diagnostics
	seen map[string]bool
	same map[string]*similar // by place and summary
	errs int                 // errors so far, repeated ones too
}

// NewDiags returns an empty Diags.
func NewDiags() *Diags { return &Diags{seen: map[string]bool{}, same: map[string]*similar{}} }

// similar are the diagnostics of one place with one summary. One block that makes
// ten thousand nodes would bury all else with as many of them.
type similar struct {
	last    *hcl.Diagnostic // the last one that is shown
	shown   int
	dropped int
}

// maxSimilar bounds the diagnostics of one place with one summary.
const maxSimilar = 10

// Extend adds diagnostics.
func (d *Diags) Extend(list hcl.Diagnostics) {
	for _, g := range list {
		if g.Severity == hcl.DiagError {
			d.errs++
		}
		at := g.Summary
		if g.Subject != nil {
			at = g.Subject.String() + "\x00" + at
		}
		key := at + "\x00" + g.Detail
		if d.seen[key] {
			continue
		}
		d.seen[key] = true
		s := d.same[at]
		if s == nil {
			s = &similar{}
			d.same[at] = s
		}
		if s.shown == maxSimilar {
			s.dropped++
			continue
		}
		s.last, s.shown = g, s.shown+1
		d.List = append(d.List, g)
	}
}

// Fail adds an error. The summary is short and fixed; the detail says what is
// wrong, why it matters and how to fix it.
func (d *Diags) Fail(subject hcl.Range, summary, detail string, args ...any) {
	d.put(hcl.DiagError, subject, summary, detail, args)
}

// FailOn is Fail for a mistake that every node of a block has: of diagnostics that differ only
// in the quoted name of the node, the first is kept.
func (d *Diags) FailOn(node string, subject hcl.Range, summary, detail string, args ...any) {
	d.errs++
	d.putOn(hcl.DiagError, node, subject, summary, fmt.Sprintf(detail, args...))
}

// WarnOn is FailOn for a warning.
func (d *Diags) WarnOn(node string, subject hcl.Range, summary, detail string, args ...any) {
	d.putOn(hcl.DiagWarning, node, subject, summary, fmt.Sprintf(detail, args...))
}

func (d *Diags) putOn(sev hcl.DiagnosticSeverity, node string, subject hcl.Range, summary, text string) {
	key := "on\x00" + subject.String() + "\x00" + summary + "\x00" + strings.ReplaceAll(text, strconv.Quote(node), "\x00")
	if !d.seen[key] {
		d.seen[key] = true
		d.put(sev, subject, summary, "%s", []any{text})
	}
}

// Warn is Fail for a warning.
func (d *Diags) Warn(subject hcl.Range, summary, detail string, args ...any) {
	d.put(hcl.DiagWarning, subject, summary, detail, args)
}

// Errors counts the errors so far, repeated ones too.
func (d *Diags) Errors() int { return d.errs }

func (d *Diags) put(sev hcl.DiagnosticSeverity, subject hcl.Range, summary, detail string, args []any) {
	g := &hcl.Diagnostic{Severity: sev, Summary: summary, Detail: fmt.Sprintf(detail, args...)}
	if subject.Filename != "" {
		g.Subject = &subject
	}
	d.Extend(hcl.Diagnostics{g})
}

// Sorted orders by file and position; those without one come first. It is called
// once, at the end.
func (d *Diags) Sorted() hcl.Diagnostics {
	for _, s := range d.same {
		if s.dropped > 0 {
			s.last.Detail += fmt.Sprintf(" (There are %d more like this here.)", s.dropped)
		}
	}
	slices.SortStableFunc(d.List, func(a, b *hcl.Diagnostic) int {
		if a.Subject == nil || b.Subject == nil {
			return cmp.Compare(Btoi(a.Subject != nil), Btoi(b.Subject != nil))
		}
		return cmp.Or(cmp.Compare(a.Subject.Filename, b.Subject.Filename),
			cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte))
	})
	return d.List
}

// distance returns how many letters of have and a known name differ, and whether have may be a
// misspelling of it.
func distance(have, known string) (n int, near bool) {
	n = levenshtein.Distance(strings.ToLower(have), strings.ToLower(known), nil)
	return n, n < 3 && n < len(known)
}

// Nearest returns the known name that have is most likely a misspelling of; "" if none is near.
func Nearest(have string, known []string) string {
	best, bestDistance := "", 0
	for _, k := range known {
		if n, near := distance(have, k); near && (best == "" || n < bestDistance) {
			best, bestDistance = k, n
		}
	}
	return best
}

// DidYouMean returns ` Did you mean "x"?` for the nearest known name, or "".
func DidYouMean(have string, known []string) string {
	if best := Nearest(have, known); best != "" {
		return fmt.Sprintf(" Did you mean %q?", best)
	}
	return ""
}

// OneOf lists names for people: `"a", "b" or "c"`.
func OneOf(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = strconv.Quote(n)
	}
	switch len(q) {
	case 0:
		return "none"
	case 1:
		return q[0]
	}
	return strings.Join(q[:len(q)-1], ", ") + " or " + q[len(q)-1]
}

// Btoi is 1 for true and 0 for false.
func Btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
