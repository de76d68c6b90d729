package kinds

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// kubeadmFlagsVariable is the variable of the kubelet's flags in the file that kubeadm
// writes for it, NAME="--a=b --c=d" (kubernetes cmd/kubeadm/app/phases/kubelet/flags.go).
const kubeadmFlagsVariable = "KUBELET_KUBEADM_ARGS"

// withFlags is the service with the flags of its FlagsFile that its command lacks and its
// program has. The
// service manager of Windows reads no such file, so they are part of the command.
func (s *Service) withFlags(ctx context.Context, r host.Reader) (*Service, error) {
	if s.FlagsFile == "" {
		return s, nil
	}
	file, err := host.ReadFile(ctx, r, s.FlagsFile, host.MaxText)
	if err != nil || file == nil {
		return s, err
	}
	flags, ok := kubeadmFlags(string(file.Content))
	if !ok || file.Truncated {
		return nil, &steps.Error{Code: steps.CodeFailed, Summary: "flags cannot be read",
			Detail: s.FlagsFile + " has no line " + kubeadmFlagsVariable + "=\"...\", as kubeadm writes it, so it is not " +
				"known with which flags service " + s.Name + " is to run",
			Remedy: "restore the file, or remove it: the service then runs with the flags of its command alone"}
	}
	out := *s
	out.Command = slices.Clone(s.Command)
	for _, f := range flags {
		name := host.FlagName(f)
		_, given := host.Flag(s.Command, name)
		gone := slices.ContainsFunc(s.FlagsGone, func(flag string) bool { return host.FlagName(flag) == name })
		if !given && !gone {
			out.Command = append(out.Command, f)
		}
	}
	return &out, nil
}

// kubeadmFlags are the flags in the text of the file, each "--name=value" or "--name".
func kubeadmFlags(text string) (flags []string, ok bool) {
	for line := range strings.Lines(text) {
		value, found := strings.CutPrefix(strings.TrimSpace(line), kubeadmFlagsVariable+"=")
		if !found {
			continue
		}
		if plain, err := strconv.Unquote(value); err == nil {
			value = plain
		}
		for _, f := range strings.Fields(value) {
			// Older versions write "--name value" too.
			if !strings.HasPrefix(f, "-") && len(flags) > 0 && !strings.Contains(flags[len(flags)-1], "=") {
				flags[len(flags)-1] += "=" + f
				continue
			}
			flags = append(flags, f)
		}
		ok = true
	}
	return flags, ok
}
