package usage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/complete"
)

// StrictBuiltins makes wrong arguments of cobra's own commands errors, by wrong. Cobra prints help for them and exits
// with 0.
func StrictBuiltins(root *cobra.Command, wrong func(*cobra.Command, error) error) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run = nil
			c.RunE = func(c *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return wrong(c.Root(), fmt.Errorf("there is no command %q", strings.Join(args, " ")))
				}
				of.InitDefaultHelpFlag()
				return of.Help()
			}
		case "completion":
			var shells []string
			for _, s := range c.Commands() {
				shells = append(shells, s.Name())
			}
			c.Args = func(c *cobra.Command, args []string) error {
				if len(args) > 0 {
					return wrong(c, fmt.Errorf("there is no completion for %q, only for %s", args[0],
						strings.Join(shells, ", ")))
				}
				return nil
			}
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			complete.Bash(c)
		}
	}
}
