// Package usage explains wrong calls of the program.
package usage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nodejoin/plan/eval"
)

// FlagError is an error of the parser of flags in words for the user: what is wrong, and the flag that was meant.
func FlagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(c, unknown)
	case errors.As(err, &empty):
		f := empty.GetFlag()
		kind, _ := pflag.UnquoteUsage(f)
		return fmt.Errorf("--%s needs a value: --%s %s", f.Name, f.Name, strings.ToUpper(kind))
	case errors.As(err, &wrong):
		why := wrong.Unwrap().Error()
		if wrong.GetFlag().Value.Type() == "bool" {
			why = "it must be true or false"
		}
		return fmt.Errorf("--%s %s: %s", wrong.GetFlag().Name, strconv.Quote(wrong.GetValue()), why)
	}
	return err
}

func unknownFlag(c *cobra.Command, e *pflag.NotExistError) error {
	name := e.GetSpecifiedName()
	written := "--" + name
	if short := e.GetSpecifiedShortnames(); short != "" {
		name, written = short, "-"+short
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	name, _, _ = strings.Cut(name, "=")
	if c.Flags().Lookup(name) != nil { // with one dash
		return fmt.Errorf("unknown flag %s. Did you mean --%s?", written, name)
	}
	hint, near := "", eval.Nearest("--"+name, known)
	for _, k := range known {
		if near == "" && strings.HasPrefix(k, "--"+name) {
			near = k
		}
	}
	if near != "" {
		hint = " Did you mean " + near + "?"
	}
	return fmt.Errorf("unknown flag %s.%s", written, hint)
}
