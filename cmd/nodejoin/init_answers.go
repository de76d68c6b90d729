package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/firstplan"
	"nodejoin/cmd/nodejoin/internal/ui"
)

// answer fills in the answers: from flags, from a person, and with what is usual.
func (i *initializer) answer(c *cobra.Command) error {
	if err := i.checkFlags(c); err != nil {
		return err
	}
	missing := i.missing(c)
	if len(missing) > 0 && !i.term.InTTY {
		return fmt.Errorf("no terminal to ask on; these flags are missing:\n  %s", strings.Join(missing, "\n  "))
	}
	if i.Sandbox && len(i.Hosts) == 0 {
		i.Hosts = []firstplan.Host{{OS: "windows", Name: "win-1", Address: "192.0.2.11"},
			{OS: "windows", Name: "win-2", Address: "192.0.2.12"}}
	}
	if len(i.Hosts) == 0 {
		if err := i.askHosts(c.Context()); err != nil {
			return err
		}
	}
	return i.answerQuestions(c, len(missing) > 0)
}

// checkFlags checks the values of the flags and takes in the hosts.
func (i *initializer) checkFlags(c *cobra.Command) error {
	for _, f := range []string{"kubeconfig", "user", "linux-user"} {
		if i.Sandbox && c.Flags().Changed(f) {
			return usageError{c, fmt.Errorf("--%s cannot be used with --sandbox", f)}
		}
	}
	for _, q := range i.Questions() {
		if !c.Flags().Changed(q.Flag) {
			continue
		}
		if err := q.Check(*q.Value); err != nil {
			return fmt.Errorf("--%s: %w", q.Flag, err)
		}
	}
	for _, h := range i.hosts.windows {
		if err := i.AddHost("windows", h); err != nil {
			return fmt.Errorf("--host %s: %w", h, err)
		}
	}
	for _, h := range i.hosts.linux {
		if err := i.AddHost("linux", h); err != nil {
			return fmt.Errorf("--linux-host %s: %w", h, err)
		}
	}
	return nil
}

// missing lists the flags without which a plan cannot be written, unless a person is asked.
func (i *initializer) missing(c *cobra.Command) []string {
	if i.Sandbox {
		return nil
	}
	var out []string
	for _, q := range i.Questions() {
		if q.Required && !c.Flags().Changed(q.Flag) {
			out = append(out, fmt.Sprintf("--%-12s %s", q.Flag, strings.ReplaceAll(q.Help, "`", "")))
		}
	}
	if len(i.Hosts) == 0 {
		out = append(out, fmt.Sprintf("--%-12s a Windows machine, name=address; or --linux-host; may be repeated", "host"))
	}
	return out
}

// answerQuestions answers what no flag says: by asking, or with what is usual.
func (i *initializer) answerQuestions(c *cobra.Command, ask bool) (err error) {
	for _, q := range i.Questions() {
		if c.Flags().Changed(q.Flag) || !q.Applies() {
			continue
		}
		*q.Value = q.Default()
		if !ask {
			continue
		}
		if *q.Value, err = i.ask(c.Context(), q.Text, *q.Value, q.Check); err != nil {
			return err
		}
	}
	return nil
}

// askHosts asks for machines, at least one.
func (i *initializer) askHosts(ctx context.Context) error {
	for _, os := range []string{"windows", "linux"} {
		name := map[string]string{"windows": "Windows", "linux": "Linux"}[os]
		text := name + " machine, as name=address (empty: none)"
		for {
			answer, err := i.ask(ctx, text, "", func(s string) error {
				switch {
				case s != "":
					return i.AddHost(os, s)
				case os == "linux" && len(i.Hosts) == 0:
					return errors.New("a plan needs at least one machine")
				}
				return nil
			})
			if err != nil {
				return err
			}
			if answer == "" {
				break
			}
			text = "Another " + name + " machine, name=address (empty: no more)"
		}
	}
	return nil
}

// errInputEnded is a terminal or pipe that ended before the last answer.
var errInputEnded = errors.New("the input ended before all questions were answered; nothing was written")

// ask asks one question until its answer is accepted; an empty answer is the fallback.
func (i *initializer) ask(ctx context.Context, text, fallback string, check func(string) error) (string, error) {
	if i.input == nil {
		i.input = bufio.NewReader(i.term.In)
	}
	question := ui.CleanLine(text)
	if fallback != "" {
		question += " [" + ui.CleanLine(fallback) + "]"
	}
	for {
		fmt.Fprint(i.term.Err, ui.Wrap(question+":", "", i.term.Width())+" ")
		line, err := readLine(ctx, i.input)
		answer := strings.TrimSpace(line)
		switch {
		case ctx.Err() != nil:
			return "", exitError(exitInterrupted)
		case errors.Is(err, io.EOF) && answer == "":
			return "", errInputEnded
		case err != nil && answer == "":
			return "", err
		case answer == "":
			answer = fallback
		}
		wrong := check(answer)
		if wrong == nil {
			return answer, nil
		}
		fmt.Fprintln(i.term.Err, ui.Wrap(ui.CleanLine(wrong.Error()), "  ", i.term.Width()))
		if err != nil {
			return "", errInputEnded
		}
	}
}

// initializer is one run of init.
type initializer struct {
	*app
	firstplan.Answers
	hosts struct{ windows, linux []string } // of --host and --linux-host, name=address
	input *bufio.Reader
}
