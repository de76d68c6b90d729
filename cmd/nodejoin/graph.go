package main

import (
	"io"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/draw"
	"nodejoin/cmd/nodejoin/internal/flagvalue"
	"nodejoin/plan"
)

// graphFormats are the values of --format.
var graphFormats = map[string]func(io.Writer, *plan.Compiled) error{"dot": draw.DOT, "mermaid": draw.Mermaid}

func newGraph(a *app) *cobra.Command {
	format := "dot"
	c := &cobra.Command{
		Use:   "graph [PLAN]",
		Short: "Print the ordered steps of every node as a graph",
		Long: `Compiles the plan and prints its step graph for Graphviz (dot) or Mermaid, or as a page
(html) that needs no network. No host is asked. The page has the phases of a join as bands,
and the path of steps that took longest in the last runs on this computer.`,
		Example: `  nodejoin graph plans/prod | dot -Tsvg > graph.svg
  nodejoin graph plans/prod --format html > graph.html`,
	}
	a.planFlags(c)
	a.untrustedFlag(c)
	c.Flags().Var(flagvalue.OneOf{Value: &format, Values: []string{"dot", "mermaid", "html"}}, "format",
		"dot, mermaid or html (one page, with search)")
	a.targetFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		compiled, err := a.load(c.Context(), args)
		if err != nil {
			return err
		}
		if format == "html" {
			return draw.HTML(a.term.Out, compiled, a.usual(args))
		}
		return graphFormats[format](a.term.Out, compiled)
	}
	return c
}
