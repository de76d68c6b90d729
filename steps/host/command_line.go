package host

import "strings"

// CommandLine joins arguments into one Windows command line that programs split into the same arguments
// (learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments).
func CommandLine(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if a != "" && !strings.ContainsAny(a, " \t\"") {
			b.WriteString(a)
			continue
		}
		b.WriteByte('"')
		slashes := 0
		for _, c := range []byte(a) {
			switch c {
			case '\\':
				slashes++
				continue
			case '"':
				b.WriteString(strings.Repeat(`\`, 2*slashes+1))
			default:
				b.WriteString(strings.Repeat(`\`, slashes))
			}
			slashes = 0
			b.WriteByte(c)
		}
		b.WriteString(strings.Repeat(`\`, 2*slashes))
		b.WriteByte('"')
	}
	return b.String()
}

// SplitCommandLine splits a Windows command line into arguments.
func SplitCommandLine(line string) []string {
	var out []string
	var arg strings.Builder
	begun, quoted := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case !quoted && (c == ' ' || c == '\t'):
			if begun {
				out = append(out, arg.String())
				arg.Reset()
				begun = false
			}
		case c == '\\':
			n := 0
			for i < len(line) && line[i] == '\\' {
				n, i = n+1, i+1
			}
			begun = true
			if i < len(line) && line[i] == '"' {
				arg.WriteString(strings.Repeat(`\`, n/2))
				if n%2 == 1 {
					arg.WriteByte('"')
					continue
				}
			} else {
				arg.WriteString(strings.Repeat(`\`, n))
			}
			i--
		case c == '"':
			begun = true
			if quoted && i+1 < len(line) && line[i+1] == '"' {
				arg.WriteByte('"')
				i++
				continue
			}
			quoted = !quoted
		default:
			begun = true
			arg.WriteByte(c)
		}
	}
	if begun {
		out = append(out, arg.String())
	}
	return out
}

// FlagName is the name of a flag, "name" of "--name=value" and of "-name". Underscores become dashes, as the
// programs of Kubernetes read it (k8s.io/component-base/cli/flag, WordSepNormalizeFunc).
func FlagName(arg string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return strings.ReplaceAll(name, "_", "-")
}

// Flag is the value of --name or -name in a command, as "--name=value" or "--name value".
func Flag(command []string, name string) (value string, given bool) {
	for i, a := range command {
		if !strings.HasPrefix(a, "-") || FlagName(a) != name {
			continue
		}
		_, v, joined := strings.Cut(a, "=")
		if !joined && i+1 < len(command) && !strings.HasPrefix(command[i+1], "-") {
			v = command[i+1]
		}
		return v, true
	}
	return "", false
}
