package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nodejoin/plan"
	"nodejoin/steps"
)

// TestArrange: in random graphs every line goes down row by row, and no two
// places in a row overlap.
func TestArrange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		after := make([][]int, n)
		widths := make([]float64, n)
		for i := range after {
			widths[i] = float64(rapid.IntRange(minWidth, 300).Draw(t, "w"))
			for d := range i {
				if rapid.IntRange(0, 5).Draw(t, "edge") == 0 {
					after[i] = append(after[i], d)
				}
			}
		}
		less := reduce(after)
		if have, want := reach(less), reach(after); fmt.Sprint(have) != fmt.Sprint(want) {
			t.Fatalf("reduce changed what comes before what:\n%v\n%v", after, less)
		}
		band := make([]int, n)
		for i, deps := range after {
			band[i] = rapid.IntRange(0, 4).Draw(t, "band")
			for _, d := range deps {
				band[i] = max(band[i], band[d])
			}
		}
		l := arrange(widths, less, band)
		for i := range n {
			for k := range n {
				if band[i] < band[k] && l.places[i].row >= l.places[k].row {
					t.Fatalf("box %d of band %d is not above box %d of band %d", i, band[i], k, band[k])
				}
			}
		}
		for _, line := range l.lines {
			for k := 1; k < len(line); k++ {
				if l.places[line[k]].row != l.places[line[k-1]].row+1 {
					t.Fatalf("line %v leaves out a row or goes up", line)
				}
			}
		}
		for _, r := range l.rows {
			for k := 1; k < len(r); k++ {
				if a, b := l.places[r[k-1]], l.places[r[k]]; a.x+a.width/2 > b.x-b.width/2+0.01 {
					t.Fatalf("places overlap: %+v %+v", a, b)
				}
			}
		}
	})
}

// TestArrangeWell: a box that comes after none stands above the one that needs it, a line past other boxes is
// straight, and no lines cross that need not.
func TestArrangeWell(t *testing.T) {
	after := [][]int{nil, {0}, {1}, {2}, {3}, {0}, nil, {4, 5, 6}}
	widths := []float64{200, 100, 120, 90, 100, 150, 84, 100}
	l := arrange(widths, after, make([]int, len(after)))
	if have, want := l.places[6].row, l.places[7].row-1; have != want {
		t.Errorf("the lone box is in row %d, not %d", have, want)
	}
	if n := l.crossings(); n != 0 {
		t.Errorf("%d crossings", n)
	}
	for _, line := range l.lines {
		for k := 2; k < len(line)-1; k++ {
			if a, b := l.places[line[k-1]], l.places[line[k]]; max(a.x-b.x, b.x-a.x) > 10 {
				t.Errorf("the line %v has a bend in row %d: %.0f and %.0f", line, b.row, a.x, b.x)
			}
		}
	}
}

// reach lists for each box all boxes that come before it.
func reach(after [][]int) [][]int {
	out := make([][]int, len(after))
	for i, deps := range after {
		for _, d := range deps {
			out[i] = append(append(out[i], d), out[d]...)
		}
		slices.Sort(out[i])
		out[i] = slices.Compact(out[i])
	}
	return out
}

func nodes(n int) *plan.Compiled {
	c := &plan.Compiled{Cluster: &plan.Cluster{Name: "<prod>"}}
	for i := range n {
		c.Nodes = append(c.Nodes, plan.Node{Name: fmt.Sprintf("win-%d", i), OS: "windows", Steps: []steps.Spec{
			{ID: "dir", Kind: "directory", Title: "</title><script>alert(1)</script>"},
			{ID: "kubelet", Kind: "service", After: []string{"dir"}}}})
	}
	return c
}

func TestHTML(t *testing.T) {
	var one, many, again bytes.Buffer
	for b, n := range map[*bytes.Buffer]int{&one: 1, &many: 300, &again: 300} {
		if err := HTML(b, nodes(n), nil); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(many.Bytes(), again.Bytes()) {
		t.Error("the same plan gave two pages")
	}
	if have := strings.Count(many.String(), "<svg"); have != 1 {
		t.Errorf("%d drawings of 300 equal nodes, want 1", have)
	}
	for _, s := range []string{"win-0<", "win-299<", "300 nodes with the same steps"} {
		if !strings.Contains(many.String(), s) {
			t.Errorf("the page has no %q", s)
		}
	}
	if s := one.String(); strings.Contains(s, "<script>alert") || !strings.Contains(s, "&lt;prod&gt;") {
		t.Error("text of the plan is not escaped")
	}
	// The page loads nothing: its only address is SVG's namespace name.
	if rest := strings.ReplaceAll(one.String(), "http://www.w3.org/2000/svg", ""); strings.Contains(rest, "://") ||
		strings.Contains(rest, "src=") {
		t.Error("the page refers to something outside")
	}
	_, svg, _ := strings.Cut(one.String(), "<svg")
	svg, _, _ = strings.Cut(svg, "</svg>")
	svg = "<svg" + svg + "</svg>"
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the drawing is not XML: %v", err)
		}
	}
}
