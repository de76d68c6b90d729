package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/buildinfo"
	"nodejoin/steps/event"
)

func newVersion(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Print the version and the commit it was built from", Args: noArgs,
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON on standard output")
	c.RunE = func(c *cobra.Command, args []string) error {
		info := buildinfo.Of(version)
		if a.json {
			return a.printJSON(struct {
				buildinfo.Info
				FormatVersion string `json:"format_version"`
			}{info, event.Version})
		}
		fmt.Fprintln(a.term.Out, info)
		return nil
	}
	return c
}
