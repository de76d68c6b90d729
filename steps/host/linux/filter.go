//go:build linux

package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/exec"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"nodejoin/steps/host"
)

// Interfaces names the network interfaces.
func (h *Host) Interfaces(ctx context.Context) ([]string, error) {
	const op, subject = "list", "network interfaces"
	if ctx.Err() != nil {
		return nil, failed(op, subject, context.Cause(ctx))
	}
	list, err := net.Interfaces()
	out := []string{}
	for _, i := range list {
		out = append(out, i.Name)
	}
	slices.Sort(out)
	return out, failed(op, subject, err)
}

// DeleteInterface removes an interface.
func (h *Host) DeleteInterface(ctx context.Context, name string) error {
	const op = "delete interface"
	if ctx.Err() != nil {
		return failed(op, name, context.Cause(ctx))
	}
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		err = nil
	}
	return failed(op, name, err)
}

// filters are the programs of iptables, which know whether the machine's rules are in
// nftables or in the older tables.
var filters = []struct{ family, save, restore string }{
	{"ipv4", "iptables-save", "iptables-restore"},
	{"ipv6", "ip6tables-save", "ip6tables-restore"},
}

// FilterChains lists the chains that programs have made: those without a policy.
func (h *Host) FilterChains(ctx context.Context) ([]host.FilterChain, error) {
	out := []host.FilterChain{}
	for _, f := range filters {
		tables, err := savedTables(ctx, f.save)
		if f.family == "ipv6" && errors.Is(err, fs.ErrNotExist) {
			continue // what is not installed has made none
		}
		if err != nil {
			return nil, err
		}
		for _, t := range tables {
			for _, name := range t.chains {
				out = append(out, host.FilterChain{Family: f.family, Table: t.name, Name: name})
			}
		}
	}
	return out, nil
}

// DeleteFilterChains removes chains, of each family all at once.
func (h *Host) DeleteFilterChains(ctx context.Context, chains []host.FilterChain) error {
	for _, f := range filters {
		tables, err := savedTables(ctx, f.save)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		script := ""
		for _, t := range tables {
			script += t.without(func(name string) bool {
				return slices.Contains(chains, host.FilterChain{Family: f.family, Table: t.name, Name: name})
			})
		}
		if script == "" {
			continue
		}
		if _, err := runFilter(ctx, script, f.restore, "--noflush", "--wait", "5"); err != nil {
			return err
		}
	}
	return nil
}

// filterTable is a table as iptables-save(8) prints it.
type filterTable struct {
	name   string
	chains []string // without those of the kernel
	rules  []string // "-A CHAIN ..."
}

func savedTables(ctx context.Context, program string) ([]filterTable, error) {
	text, err := runFilter(ctx, "", program)
	if err != nil {
		return nil, err
	}
	return filterTables(text), nil
}

func filterTables(text string) (out []filterTable) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "*"); ok {
			out = append(out, filterTable{name: name})
			continue
		}
		if len(out) == 0 {
			continue
		}
		t := &out[len(out)-1]
		if strings.HasPrefix(line, "-A ") {
			t.rules = append(t.rules, line)
		} else if f := strings.Fields(strings.TrimPrefix(line, ":")); line != "" && line[0] == ':' &&
			len(f) > 1 && f[1] == "-" {
			t.chains = append(t.chains, f[0]) // "-" means no policy
		}
	}
	return out
}

// without is the input of iptables-restore(8) that removes chains: it empties them, deletes the rules that
// lead to them, then the chains; "" = there is none of them.
func (t filterTable) without(gone func(name string) bool) string {
	var empty, rules, drop strings.Builder
	for _, name := range t.chains {
		if gone(name) {
			fmt.Fprintf(&empty, ":%s - [0:0]\n", name)
			fmt.Fprintf(&drop, "-X %s\n", name)
		}
	}
	if drop.Len() == 0 {
		return ""
	}
	for _, rule := range t.rules {
		words := ruleWords(rule)
		if gone(words[1]) {
			continue // it went with its chain
		}
		for i, w := range words[:len(words)-1] {
			if (w == "-j" || w == "-g") && gone(words[i+1]) {
				fmt.Fprintf(&rules, "-D %s\n", strings.TrimPrefix(rule, "-A "))
			}
		}
	}
	return "*" + t.name + "\n" + empty.String() + rules.String() + drop.String() + "COMMIT\n"
}

// ruleWords are the words of a rule; one in quotes, such as a comment, is "".
func ruleWords(rule string) (out []string) {
	for rule = strings.TrimSpace(rule); rule != ""; rule = strings.TrimSpace(rule) {
		if rule[0] != '"' {
			word, rest, _ := strings.Cut(rule, " ")
			out, rule = append(out, word), rest
			continue
		}
		end := 1
		for end < len(rule) && rule[end] != '"' {
			if rule[end] == '\\' {
				end++
			}
			end++
		}
		out, rule = append(out, ""), rule[min(end+1, len(rule)):]
	}
	return out
}

// runFilter runs a program of iptables or nftables and gives what it printed.
func runFilter(ctx context.Context, input, program string, args ...string) (string, error) {
	if ctx.Err() != nil {
		return "", failed("run", program, context.Cause(ctx))
	}
	path, err := systemProgram(program)
	if err != nil {
		return "", failed("run", program, err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", failed("run", program, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String())))
	}
	return stdout.String(), nil
}

// systemProgram finds a program where distributions have those of the system; a session
// of SSH may know fewer folders.
func systemProgram(name string) (string, error) {
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"} {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s is not installed", fs.ErrNotExist, name)
}
