package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"nodejoin/cmd/nodejoin/internal/buildinfo"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write manual pages",
		Long: `Writes a manual page (section 1) for nodejoin and for each of its commands into a folder,
such as /usr/local/share/man/man1.`,
		Example: `  nodejoin man ~/.local/share/man/man1`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{c, fmt.Errorf("%s takes the folder to write into", c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: buildinfo.Of(version).String(),
				Manual: "nodejoin"}, args[0])
		},
	}
}
