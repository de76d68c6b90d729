// Package complete is what the shells are offered at a TAB.
package complete

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nodejoin/cmd/nodejoin/internal/history"
)

// Flags offers the values of flags that take one of a few: their Value has a method Choices.
func Flags(root *cobra.Command) {
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if v, ok := f.Value.(interface{ Choices() []string }); ok {
				_ = c.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, typed string) ([]string,
					cobra.ShellCompDirective) {
					return Names(v.Choices(), typed, ""), cobra.ShellCompDirectiveNoFileComp
				})
			}
		})
		Flags(c)
	}
}

// Names are those that start with what was typed, each with an end.
func Names(names []string, typed, end string) (out []string) {
	for _, n := range names {
		if strings.HasPrefix(n+end, typed) {
			out = append(out, n+end)
		}
	}
	return out
}

// Runs offers the recorded runs, newest first, each with its command and plan. Without one the shell offers files.
func Runs(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const most = 20
	root, err := history.Root()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	runs, err := history.Newest(root, most)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	for _, r := range runs {
		out = append(out, r.Head.Holder.Run+"\t"+r.Head.Holder.Command+" "+r.Head.Called())
	}
	out = slices.DeleteFunc(out, func(s string) bool { return !strings.HasPrefix(s, typed) })
	return out, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveKeepOrder
}

// words stands in for the function of the package bash-completion that cobra's script calls. It gives the words of the
// line, in which '=' and ':' do not divide.
const words = `# Without the package bash-completion this does what is needed of it here.
if ! declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref() {
        local i word joined=()
        for ((i = 0; i <= COMP_CWORD; i++)); do
            word="${COMP_WORDS[i]}"
            if ((i > 1)) && { [[ $word == [=:]* ]] || [[ ${COMP_WORDS[i-1]} == *[=:] ]]; }; then
                joined[${#joined[@]}-1]+="$word"
            else
                joined+=("$word")
            fi
        done
        words=("${joined[@]}")
        cword=$((${#words[@]} - 1))
        cur="${words[cword]}"
        prev="${words[cword > 0 ? cword - 1 : 0]}"
    }
fi
if ! declare -F __ltrim_colon_completions >/dev/null; then
    __ltrim_colon_completions() { :; }
fi
`

// Bash makes the script for bash work without the package bash-completion.
func Bash(completion *cobra.Command) {
	for _, c := range completion.Commands() {
		if c.Name() != "bash" {
			continue
		}
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			if _, err := io.WriteString(c.OutOrStdout(), words); err != nil {
				return err
			}
			return run(c, args)
		}
	}
}
