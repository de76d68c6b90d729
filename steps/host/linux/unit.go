//go:build linux

package linux

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"nodejoin/steps/host"
)

// A unit file that nodejoin writes ends in a section of its own, which systemd
// leaves alone (systemd.unit(5): sections with the prefix X-). It holds the
// configuration that the rest is rendered from, without the environment, which
// may be secret: that is in a file that only root may read.
const (
	unitHead       = "# Written by nodejoin, which undoes changes by hand; lay yours over it with `systemctl edit`.\n"
	unitSection    = "[X-Nodejoin]\nDefinition="
	unitEnding     = ".service"
	unitWantedBy   = "multi-user.target"
	unitExecFailed = 203 // exit status of a program that could not be run (systemd.exec(5), EXIT_EXEC)
)

// unitName are the characters of a unit's name before its ending (systemd.unit(5)).
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\-]+$`)

// unitText renders a service as a unit file. envFiles are files of variables: the
// machine's, which may be missing, and that of the service, "" = none.
func unitText(c host.ServiceConfig, machineEnv, serviceEnv string) (string, error) {
	definition := c
	definition.Environment = nil
	text, err := json.Marshal(definition)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	b.WriteString(unitHead)
	line("[Unit]")
	line("Description=%s", unitLine(cmpOr(c.Description, c.DisplayName)))
	line("Wants=network-online.target")
	line("After=network-online.target")
	for _, d := range c.DependsOn {
		line("Requires=%s%s", d, unitEnding)
		line("After=%s%s", d, unitEnding)
	}
	restarts, delay := recovery(c)
	switch {
	case restarts == 0 || !slices.ContainsFunc(c.Recovery, func(a host.RecoveryAction) bool {
		return a.Action == "none"
	}):
		line("StartLimitIntervalSec=0") // never given up
	default:
		line("StartLimitBurst=%d", restarts+1)
		if c.RecoveryReset == 0 {
			line("StartLimitIntervalSec=infinity")
		} else {
			line("StartLimitIntervalSec=%d", c.RecoveryReset)
		}
	}
	if c.Start == host.StartDisabled {
		line("RefuseManualStart=yes")
	}
	line("\n[Service]\nType=exec")
	words := make([]string, len(c.Command))
	for i, w := range c.Command {
		words[i] = unitWord(w, i > 0)
	}
	line("ExecStart=%s", strings.Join(words, " "))
	line("EnvironmentFile=-%s", unitLine(machineEnv))
	if serviceEnv != "" {
		line("EnvironmentFile=%s", unitLine(serviceEnv))
	}
	// As in containerd's own unit: containers outlive their runtime, and their cgroups are not systemd's.
	// Without systemd, too, only the service's own process is ended.
	line("Delegate=yes\nKillMode=process\nTasksMax=infinity")
	if restarts > 0 {
		line("Restart=always\nRestartSec=%dms", delay)
	}
	if c.Start == host.StartAuto || c.Start == host.StartDelayed {
		line("\n[Install]\nWantedBy=" + unitWantedBy)
	}
	line("\n%s%s", unitSection, text)
	return b.String(), nil
}

// recovery is how often the service is started again, and after how many
// milliseconds: systemd knows one delay, that of the first failure.
func recovery(c host.ServiceConfig) (restarts int, delay int64) {
	for i, a := range c.Recovery {
		if a.Action != "restart" {
			break
		}
		if i == 0 {
			delay = max(a.Delay.Milliseconds(), 1)
		}
		restarts++
	}
	return restarts, delay
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// unitLine is a value of one line: no specifier (%), no continuation.
func unitLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	return strings.TrimRight(strings.ReplaceAll(s, "%", "%%"), `\`)
}

// unitWord is one word of a command line, quoted so that systemd neither expands nor
// splits it (systemd.service(5), "Command lines"). Variables are not expanded in the first word.
func unitWord(s string, argument bool) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch c := s[i]; {
		case r == utf8.RuneError && n == 1, c < ' ', c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '%' || c == '$' && argument:
			b.WriteByte(c)
			b.WriteByte(c)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

// unitDefinition finds what unitText was given, but for the environment; ok is false
// for a unit of somebody else.
func unitDefinition(text, name string) (c host.ServiceConfig, ok bool) {
	_, rest, found := strings.Cut(text, "\n"+unitSection)
	if !found {
		return c, false
	}
	line, _, _ := strings.Cut(rest, "\n")
	err := json.Unmarshal([]byte(line), &c)
	return c, err == nil && c.Name == name && len(c.Command) > 0
}

// environmentText writes variables for an EnvironmentFile= (systemd.exec(5)): in double quotes, with ", \,
// $ and ` escaped by a backslash.
func environmentText(env []string) (string, error) {
	var b strings.Builder
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if strings.ContainsAny(value, "\n\r") || !utf8.ValidString(e) || strings.ContainsAny(name, " \t#;\"'\\") {
			return "", fmt.Errorf("%w: a file of variables cannot hold the variable %s", fs.ErrInvalid,
				strconv.Quote(name))
		}
		b.WriteString(name + `="` + environmentEscape.Replace(value) + "\"\n")
	}
	return b.String(), nil
}

var environmentEscape = strings.NewReplacer(`"`, `\"`, `\`, `\\`, `$`, `\$`, "`", "\\`")

var environmentUnescape = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`")

// environmentOf reads what environmentText wrote; it skips other lines.
func environmentOf(text string) (env []string) {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), `="`)
		if text, quoted := strings.CutSuffix(value, `"`); ok && quoted {
			env = append(env, name+"="+environmentUnescape.Replace(text))
		}
	}
	return env
}
