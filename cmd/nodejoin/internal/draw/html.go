package draw

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// group is a drawing of all nodes with the same steps.
type group struct {
	Title  string
	Names  []string
	Open   bool // the names are shown without a click
	Steps  int
	Width  string
	Height string
	Boxes  []box
	Lines  []line
	Bands  []band
	Path   []string // of steps that took longest in the last run; empty = not known
	Took   string   // by the path
	plan.Node
}

type box struct {
	ID, Kind, Class, Tip, Search  string
	X, Y, W, H, Mid, Text1, Text2 string

	Took     string // in the last run; "" = not known
	After    string // the steps before it
	Critical bool
}

type line struct {
	From, To, D string
	Critical    bool
}

// band has the steps of a phase.
type band struct{ Name, Y, H, Text string }

// openNames is how many names a group may have to be shown without a click.
const openNames = 24

// HTML writes the graphs of a plan as one page. Nodes with the same steps share a
// drawing. The same plan gives the same bytes. took is how long a step took in the last runs, negative where that is
// not known; nil = nothing is known.
func HTML(w io.Writer, c *plan.Compiled, took func(host, step string) time.Duration) error {
	data := struct {
		Name   string
		Nodes  int
		Steps  int
		Groups []*group
		Legend [][2]string
	}{Nodes: len(c.Nodes), Legend: [][2]string{{"set", "files and settings"}, {"get", "artifacts"}, {"run", "services"},
		{"wait", "gates"}, {"kube", "cluster"}}}
	if c.Cluster != nil {
		data.Name = c.Cluster.Name
	}
	by := map[string]*group{}
	for _, n := range c.Nodes {
		data.Steps += len(n.Steps)
		key := shape(n)
		g := by[key]
		if g == nil {
			g = &group{Node: n, Steps: len(n.Steps)}
			by[key] = g
			data.Groups = append(data.Groups, g)
		}
		g.Names = append(g.Names, n.Name)
	}
	for _, g := range data.Groups {
		g.Open = len(g.Names) <= openNames
		g.Title = g.Names[0]
		if len(g.Names) > 1 {
			g.Title = fmt.Sprintf("%d nodes with the same steps", len(g.Names))
		}
		g.draw(took)
	}
	return page.Execute(w, data)
}

// shape is equal for nodes whose drawings are equal.
func shape(n plan.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", n.OS, n.Connection.Type)
	for _, s := range n.Steps {
		fmt.Fprintf(&b, "%q %q %q %q\n", s.ID, s.Kind, s.OnlyIf, s.After)
	}
	return b.String()
}

func (g *group) draw(took func(host, step string) time.Duration) {
	index := map[string]int{}
	after := make([][]int, len(g.Node.Steps))
	var widths []float64
	for i, s := range g.Node.Steps {
		for _, d := range s.After {
			if k, ok := index[d]; ok {
				after[i] = append(after[i], k)
			}
		}
		index[s.ID] = i
		kind := len(s.Kind)
		if timed(took, g.Name, s.ID) {
			kind += len(", 0.00 s")
		}
		widths = append(widths, max(minWidth, charWidth*max(float64(len(s.ID)), smaller*float64(kind))+18))
	}
	phase := phasesOf(g.Node.Steps, after)
	longest, whole := critical(g.Node, after, took)
	after = reduce(after)
	l := arrange(widths, after, phase)
	for _, i := range longest {
		g.Path = append(g.Path, g.Node.Steps[i].ID)
	}
	g.Took = span(whole)
	g.bands(l, phase)
	g.Width, g.Height = px(l.width), px(l.height)
	for _, p := range l.places {
		if p.box < 0 {
			continue
		}
		s := g.Node.Steps[p.box]
		tip := s.ID + " (" + s.Kind + ")"
		known := ""
		if timed(took, g.Name, s.ID) {
			known = span(took(g.Name, s.ID))
			tip += "\ntook " + known
		}
		if s.Title != "" && len(g.Names) == 1 {
			tip += "\n" + steps.ShowRefs(s.Title)
		}
		if len(s.After) > 0 {
			tip += "\nafter " + strings.Join(s.After, ", ")
		}
		if s.Source != "" {
			tip += "\n" + s.Source
		}
		y := top(p.row)
		g.Boxes = append(g.Boxes, box{ID: s.ID, Kind: s.Kind, Class: class(kinds.Of(s)), Tip: tip,
			Search: strings.ToLower(s.ID + " " + s.Kind),
			X:      px(p.x - p.width/2), Y: px(y), W: px(p.width), H: px(boxHeight), Mid: px(p.x), Text1: px(y + 17),
			Text2: px(y + 32), Took: known, After: strings.Join(s.After, ", "), Critical: slices.Contains(longest, p.box)})
	}
	g.wires(l, longest)
}

// wires are the lines between the boxes.
func (g *group) wires(l *layout, longest []int) {
	for _, path := range l.lines {
		var d strings.Builder
		for k, i := range path {
			p := l.places[i]
			switch k {
			case 0:
				fmt.Fprintf(&d, "M%s %s", px(p.x), px(top(p.row)+boxHeight))
			default:
				prev := l.places[path[k-1]]
				y0, y1 := top(prev.row)+boxHeight, top(p.row)
				mid := (y0 + y1) / 2
				fmt.Fprintf(&d, "C%s %s %s %s %s %s", px(prev.x), px(mid), px(p.x), px(mid), px(p.x), px(y1))
				if p.box < 0 {
					fmt.Fprintf(&d, "V%s", px(y1+boxHeight))
				}
			}
		}
		from, to := l.places[path[0]].box, l.places[path[len(path)-1]].box
		at := slices.Index(longest, from)
		g.Lines = append(g.Lines, line{From: g.Node.Steps[from].ID, To: g.Node.Steps[to].ID, D: d.String(),
			Critical: at >= 0 && at+1 < len(longest) && longest[at+1] == to})
	}
}

// bands are the stripes behind the boxes, one for each phase that has steps.
func (g *group) bands(l *layout, phase []int) {
	for k, name := range phases {
		first, last := -1, -1
		for _, p := range l.places {
			if p.box < 0 || phase[p.box] != k {
				continue
			}
			if first < 0 || p.row < first {
				first = p.row
			}
			last = max(last, p.row)
		}
		if first >= 0 {
			y := top(first) - rowGap/2
			g.Bands = append(g.Bands, band{name, px(y), px(top(last) + boxHeight + rowGap/2 - y), px(y + 20)})
		}
	}
}

// timed reports whether a time is known that is worth to be shown.
func timed(took func(host, step string) time.Duration, host, step string) bool {
	return took != nil && took(host, step) >= 10*time.Millisecond
}

// span is a time for people.
func span(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// class is the colour of a kind's boxes.
func class(k steps.Kind) string {
	switch {
	case k.Waits, k.Finds:
		return "wait"
	case k.Place == steps.OnCluster:
		return "kube"
	case k.Runs != nil:
		return "run"
	case k.Installs != nil:
		return "get"
	}
	return "set"
}

func px(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }
