package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan/block"
	"nodejoin/plan/eval"
)

// outputCommand is one run of output.
type outputCommand struct {
	*app
	name string // --name
}

func newOutput(a *app) *cobra.Command {
	x := &outputCommand{app: a}
	c := &cobra.Command{
		Use:   "output [PLAN]",
		Short: "Print the values of the plan's output blocks",
		Long: `Compiles the plan and prints what its output blocks say. No host and no cluster is asked.
With --name it prints one value by itself: a text as it is, everything else as JSON.
Sensitive values are never printed.`,
		Example: `  nodejoin output plans/prod
  ping "$(nodejoin output plans/prod --name gateway)"`,
		RunE: x.run,
	}
	a.planFlags(c)
	a.untrustedFlag(c)
	c.Flags().StringVar(&x.name, "name", "", "print the value of this `output` only")
	c.Flags().BoolVar(&a.json, "json", false, "print JSON on standard output")
	return c
}

func (x *outputCommand) run(c *cobra.Command, args []string) error {
	compiled, err := x.load(c.Context(), args)
	if err != nil {
		return err
	}
	list := compiled.Outputs
	if x.name != "" {
		one, err := outputNamed(list, x.name)
		if err != nil {
			return err
		}
		list = []block.Output{one}
	}
	switch {
	case x.json:
		return x.printJSON(jsonout.OfOutputs(list))
	case x.name != "":
		return x.printValue(list[0])
	case len(list) == 0:
		x.term.Notice("The plan has no output block.")
	}
	for _, o := range list {
		value := "(sensitive)"
		if !o.Sensitive {
			value = indented(o.Value)
		}
		fmt.Fprintf(x.term.Out, "%s = %s\n", o.Name, ui.Clean(value))
	}
	return nil
}

// outputNamed finds an output.
func outputNamed(list []block.Output, name string) (block.Output, error) {
	var names []string
	for _, o := range list {
		if o.Name == name {
			return o, nil
		}
		names = append(names, o.Name)
	}
	return block.Output{}, fmt.Errorf("--name: %s", eval.UnknownName("output", name, names))
}

// printValue prints a value for a script.
func (x *outputCommand) printValue(o block.Output) error {
	if o.Sensitive {
		return fmt.Errorf("the output %q is sensitive, so it is not printed", o.Name)
	}
	var text string
	if err := json.Unmarshal(o.Value, &text); err != nil || string(o.Value) == "null" {
		text = string(o.Value)
	}
	_, err := fmt.Fprintln(x.term.Out, ui.Clean(text))
	return err
}

// indented writes JSON over several lines where it is not a plain value.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}
