// Package draw writes step graphs: for Graphviz, for Mermaid, and laid out as a page that
// needs no network and no library.
//
// Layout libraries were tried in November 2026, and none is good enough: goccy/go-graphviz 0.2.10 draws well, but adds
// 7.1 MB and 50 to 140 ms to every start, and crashes with Go 1.24 and newer (its issue 112, open); dagre in goja, as
// in d2, takes 20 s for the steps of one node; gonum/graph/layout knows no layers; dominikbraun/graph has no layout;
// others are not kept or not on the module proxy. If go-graphviz is kept again and starts only when used, take it.
package draw

import (
	"cmp"
	"slices"
)

// Sizes in pixels of the drawing.
const (
	boxHeight = 40
	rowGap    = 34
	boxGap    = 14
	wireGap   = 10 // beside a place that only a line passes through
	margin    = 16
	bandLabel = 70   // left of the boxes, for the name of a band
	charWidth = 7.2  // upper estimate for 12px sans-serif
	smaller   = 0.85 // the text below it is 10px
	minWidth  = 84
)

// place is a box, or with box < 0 a point that a line over several rows passes through.
type place struct {
	box   int
	row   int
	width float64
	x     float64 // middle
	up    []int   // places in the row above that it is connected to
	down  []int
}

// layout is a drawing of boxes in rows. Every line goes from a row to a lower one.
type layout struct {
	places []place
	rows   [][]int // places of a row, left to right
	lines  [][]int // places that each line passes through, top to bottom
	width  float64
	height float64
}

// reduce drops edges that follow from others: a -> c if a -> b -> c. after[i] are the
// boxes that come before i; all have lower numbers than i.
func reduce(after [][]int) [][]int {
	reach := make([]map[int]bool, len(after))
	out := make([][]int, len(after))
	for i, deps := range after {
		reach[i] = map[int]bool{}
		for _, d := range deps {
			reach[i][d] = true
			for r := range reach[d] {
				reach[i][r] = true
			}
		}
		for _, d := range deps {
			if !slices.ContainsFunc(deps, func(o int) bool { return o != d && reach[o][d] }) && !slices.Contains(out[i], d) {
				out[i] = append(out[i], d)
			}
		}
		slices.Sort(out[i])
	}
	return out
}

// maxRow is how wide the boxes of a row may be together. A row that is wider is broken.
const maxRow = 1000

// arrange lays out boxes of the given widths. after is a result of reduce. The boxes of a band stand below those of
// the bands before; none comes before a box of an earlier band.
func arrange(widths []float64, after [][]int, band []int) *layout {
	l := &layout{}
	row := banded(rowsOf(after), widths, band)
	for i, w := range widths {
		l.places = append(l.places, place{box: i, row: row[i], width: w})
	}
	for i, deps := range after {
		for _, d := range deps {
			line := []int{d}
			for r := row[d] + 1; r < row[i]; r++ {
				l.places = append(l.places, place{box: -1, row: r})
				line = append(line, len(l.places)-1)
			}
			line = append(line, i)
			for k := 1; k < len(line); k++ {
				l.places[line[k-1]].down = append(l.places[line[k-1]].down, line[k])
				l.places[line[k]].up = append(l.places[line[k]].up, line[k-1])
			}
			l.lines = append(l.lines, line)
		}
	}
	for i, p := range l.places {
		for len(l.rows) <= p.row {
			l.rows = append(l.rows, nil)
		}
		l.rows[p.row] = append(l.rows[p.row], i)
	}
	l.order()
	l.position()
	return l
}

// rowsOf returns the row of each box: the first below all boxes that come before it. A box that comes after none
// stands right above the first that needs it.
func rowsOf(after [][]int) []int {
	row, first := make([]int, len(after)), make([]int, len(after))
	for i, deps := range after {
		for _, d := range deps {
			row[i] = max(row[i], row[d]+1)
		}
		for _, d := range deps {
			if first[d] == 0 || row[i] < first[d] {
				first[d] = row[i]
			}
		}
	}
	for i, deps := range after {
		if len(deps) == 0 {
			row[i] = max(first[i]-1, 0)
		}
	}
	return row
}

// banded are the rows where each band has rows of its own, and no row is too wide.
func banded(row []int, widths []float64, band []int) []int {
	list := make([]int, len(row))
	for i := range list {
		list[i] = i
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Or(cmp.Compare(band[a], band[b]), cmp.Compare(row[a], row[b]))
	})
	out := make([]int, len(row))
	at, wide := 0, 0.0
	for k, i := range list {
		if k > 0 {
			if prev := list[k-1]; band[prev] != band[i] || row[prev] != row[i] || wide+widths[i] > maxRow {
				at, wide = at+1, 0
			}
		}
		out[i] = at
		wide += widths[i] + boxGap
	}
	return out
}

// order sorts each row by the mean position of the connected places, downwards and
// upwards in turn, and keeps the order in which the fewest lines cross.
func (l *layout) order() {
	best, least := l.clone(), l.crossings()
	defer func() { l.rows = best }()
	at := make([]float64, len(l.places))
	index := func() {
		for _, r := range l.rows {
			for k, p := range r {
				at[p] = float64(k) / float64(max(len(r)-1, 1))
			}
		}
	}
	index()
	for sweep := range 24 {
		for k := range l.rows {
			r, next := l.rows[k], func(p place) []int { return p.up }
			if sweep%2 == 1 {
				r, next = l.rows[len(l.rows)-1-k], func(p place) []int { return p.down }
			}
			want := map[int]float64{}
			for _, p := range r {
				want[p] = mean(next(l.places[p]), at, at[p])
			}
			slices.SortStableFunc(r, func(a, b int) int { return cmp.Compare(want[a], want[b]) })
			for k, p := range r {
				at[p] = float64(k) / float64(max(len(r)-1, 1))
			}
		}
		if n := l.crossings(); n < least {
			best, least = l.clone(), n
		}
	}
}

func (l *layout) clone() [][]int {
	out := make([][]int, len(l.rows))
	for i, r := range l.rows {
		out[i] = slices.Clone(r)
	}
	return out
}

// crossings is how many pairs of lines cross.
func (l *layout) crossings() int {
	at := make([]int, len(l.places))
	for _, r := range l.rows {
		for k, p := range r {
			at[p] = k
		}
	}
	n := 0
	for _, r := range l.rows {
		var ends []int // of the lines that begin in this row, from left to right
		for _, p := range r {
			mine := make([]int, 0, len(l.places[p].down))
			for _, d := range l.places[p].down {
				mine = append(mine, at[d])
			}
			for _, e := range mine {
				for _, before := range ends {
					if before > e {
						n++
					}
				}
			}
			ends = append(ends, mine...)
		}
	}
	return n
}

func mean(of []int, at []float64, fallback float64) float64 {
	if len(of) == 0 {
		return fallback
	}
	sum := 0.0
	for _, p := range of {
		sum += at[p]
	}
	return sum / float64(len(of))
}

// position sets the x of every place: near the connected places, in the row's order.
func (l *layout) position() {
	x := make([]float64, len(l.places))
	for _, r := range l.rows {
		total := 0.0
		for k, p := range r {
			if k > 0 {
				total += l.apart(r[k-1], p)
			}
			x[p] = total
		}
		for _, p := range r {
			x[p] -= total / 2
		}
	}
	for sweep := range sweeps {
		for k := range l.rows {
			r := l.rows[k]
			if sweep%2 == 1 {
				r = l.rows[len(l.rows)-1-k]
			}
			l.settle(r, x, sweep)
		}
	}
	least, most := 0.0, 0.0
	for i, p := range l.places {
		least, most = min(least, x[i]-p.width/2), max(most, x[i]+p.width/2)
	}
	for i := range l.places {
		l.places[i].x = x[i] - least + margin + bandLabel
	}
	l.width = most - least + 2*margin + bandLabel
	l.height = float64(len(l.rows)*(boxHeight+rowGap)-rowGap) + 2*margin
}

// sweeps settle the rows, downwards and upwards in turn. In the first ones a place follows the row before it.
const sweeps, following = 60, 40

// settle moves the places of a row to where they want to be, as near as they get without overlaps and in their order:
// places that touch move together, to the mean of what they want.
func (l *layout) settle(r []int, x []float64, sweep int) {
	type block struct {
		from, to  int
		sum, mass float64 // of the positions that it wants to begin at
	}
	offset := make([]float64, len(r))
	var blocks []block
	for k, p := range r {
		if k > 0 {
			offset[k] = offset[k-1] + l.apart(r[k-1], p)
		}
		want, mass := l.want(p, x, sweep)
		last := block{k, k + 1, (want - offset[k]) * mass, mass}
		for n := len(blocks) - 1; n >= 0 && blocks[n].sum/blocks[n].mass > last.sum/last.mass; n-- {
			last.from, last.sum, last.mass = blocks[n].from, last.sum+blocks[n].sum, last.mass+blocks[n].mass
			blocks = blocks[:n]
		}
		blocks = append(blocks, last)
	}
	for _, b := range blocks {
		for k := b.from; k < b.to; k++ {
			x[r[k]] = b.sum/b.mass + offset[k]
		}
	}
}

// want is the middle of the places that a place is connected to, and how much it counts. Long lines count most, so
// that they become straight.
func (l *layout) want(p int, x []float64, sweep int) (at, mass float64) {
	sum := 0.0
	for side, connected := range [][]int{l.places[p].up, l.places[p].down} {
		for _, q := range connected {
			m := 1.0
			switch passing := l.places[p].box < 0; {
			case passing && l.places[q].box < 0:
				m = 8
			case passing || l.places[q].box < 0:
				m = 2
			}
			if sweep < following && side != sweep%2 {
				m /= 10
			}
			sum, mass = sum+m*x[q], mass+m
		}
	}
	if mass == 0 {
		return x[p], 0.1
	}
	return sum / mass, mass
}

// apart is the smallest distance between the middles of two neighbours.
func (l *layout) apart(a, b int) float64 {
	gap := float64(boxGap)
	if l.places[a].box < 0 || l.places[b].box < 0 {
		gap = wireGap
	}
	return l.places[a].width/2 + gap + l.places[b].width/2
}

func top(row int) float64 { return float64(margin + row*(boxHeight+rowGap)) }
