package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"nodejoin/steps/event"
)

func newVersion(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON on standard output")
	c.RunE = func(c *cobra.Command, args []string) error {
		if a.json {
			return a.printJSON(map[string]string{"version": version, "go": runtime.Version(),
				"platform": runtime.GOOS + "/" + runtime.GOARCH, "format_version": event.Version})
		}
		fmt.Fprintf(a.term.Out, "nodejoin %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	return c
}
