package draw

import (
	"fmt"
	"io"
	"strings"

	"nodejoin/plan"
)

// DOT writes the graphs of a plan for Graphviz.
func DOT(w io.Writer, c *plan.Compiled) error {
	fmt.Fprintln(w, "digraph nodejoin {\n  rankdir = LR\n  node [shape = box, fontname = \"sans-serif\"]")
	for i, n := range c.Nodes {
		fmt.Fprintf(w, "  subgraph cluster_%d {\n    label = %q\n", i, n.Address)
		for _, s := range n.Steps {
			fmt.Fprintf(w, "    %q [label = %q]\n", n.Address+"."+s.ID, s.ID+"\n"+s.Kind)
		}
		for _, s := range n.Steps {
			for _, d := range s.After {
				fmt.Fprintf(w, "    %q -> %q\n", n.Address+"."+d, n.Address+"."+s.ID)
			}
		}
		fmt.Fprintln(w, "  }")
	}
	_, err := fmt.Fprintln(w, "}")
	return err
}

// Mermaid writes the graphs of a plan for Mermaid.
func Mermaid(w io.Writer, c *plan.Compiled) error {
	fmt.Fprintln(w, "flowchart LR")
	id := func(node int, step string) string { return fmt.Sprintf("n%d_%s", node, step) }
	text := strings.NewReplacer(`"`, "#quot;", "\n", " ")
	for i, n := range c.Nodes {
		fmt.Fprintf(w, "  subgraph n%d [\"%s\"]\n", i, text.Replace(n.Address))
		for _, s := range n.Steps {
			fmt.Fprintf(w, "    %s[\"%s<br>%s\"]\n", id(i, s.ID), text.Replace(s.ID), text.Replace(s.Kind))
		}
		for _, s := range n.Steps {
			for _, d := range s.After {
				fmt.Fprintf(w, "    %s --> %s\n", id(i, d), id(i, s.ID))
			}
		}
		fmt.Fprintln(w, "  end")
	}
	return nil
}
