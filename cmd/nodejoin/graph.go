package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/draw"
	"nodejoin/plan"
)

// graphFormats are the values of --format.
var graphFormats = map[string]func(io.Writer, *plan.Compiled) error{"dot": writeDOT, "mermaid": writeMermaid,
	"html": draw.HTML}

func newGraph(a *app) *cobra.Command {
	format := "dot"
	c := &cobra.Command{
		Use:   "graph [PLAN]",
		Short: "Print the ordered steps of every node as a graph",
		Long: `Compiles the plan and prints its step graph for Graphviz (dot) or Mermaid, or as a page
(html) that needs no network. No host is asked.`,
		Example: `  nodejoin graph plans/prod | dot -Tsvg > graph.svg
  nodejoin graph plans/prod --format html > graph.html`,
	}
	a.planFlags(c)
	c.Flags().StringVar(&format, "format", format, "dot, mermaid or html (one page, with search)")
	a.targetFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		write := graphFormats[format]
		if write == nil {
			return fmt.Errorf("--format %s: it must be dot, mermaid or html", format)
		}
		compiled, err := a.load(c.Context(), args)
		if err != nil {
			return err
		}
		return write(a.term.Out, compiled)
	}
	return c
}

func writeDOT(w io.Writer, c *plan.Compiled) error {
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

func writeMermaid(w io.Writer, c *plan.Compiled) error {
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
