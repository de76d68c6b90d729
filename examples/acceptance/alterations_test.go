package acceptance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"nodejoin/examples/acceptance/internal/hns"
)

// alteration changes one thing of a joined machine, as somebody does by hand.
type alteration struct {
	name string
	// slot is the path of what it changes: of two alterations whose slots lie below each other only one is made at once.
	slot string
	// step of the plan sees it, and shows this of it. "" = any change
	step, shows string

	value string                  // of the registry, "KEY "NAME"", as everything names it
	edit  func(now string) string // changes the value as reg.exe exports it; "-" deletes it
	scm   []string                // arguments of servicectl
	apply func() error
}

// others are prefixes of what differs on a joined machine and no plan checks (operations.md, Drift).
var others = []struct{ prefix, why string }{
	{`file ProgramData\containerd`, "containerd's own"},
	{`file var\lib\kubelet\pki\`, "certificates of the kubelet, which asks for new ones itself"},
	{`file var\lib\kubelet\`, "the kubelet's own, but for config.yaml"},
	{`file var\log\`, "logs: the programs' own"},
	{`file run\flannel\`, "flanneld's own, but for subnet.env"},
	{`file var\lib\cni\networks\`, "reservations of CNI plugins, but for that of kube-proxy"},
	{`file ProgramData\nodejoin\`, "what nodejoin keeps; it is written again when it is next needed"},
}

// unclaimed are what programs make on behalf of a step, and the step that sees it.
var unclaimed = map[string]string{
	`C:\run\flannel\subnet.env`:      "subnet_env",
	`C:\etc\kubernetes\kubelet.conf`: "kubelet_certificate",
}

// servicesOfNode are the services in an order in which they can be stopped.
var servicesOfNode = []string{"nodejoin-node", "kube-proxy", "flanneld", "kubelet", "containerd"}

// claim is the key of a claim in the record on the machine.
type claim struct{ prefix, path string }

// claims are what the record on the machine says that nodejoin made, with the step that made it.
func (b *bed) claims() map[claim]string {
	b.t.Helper()
	var record struct {
		Claims map[string]struct{ Step string }
	}
	if err := json.Unmarshal(b.read(`C:\ProgramData\nodejoin\record.json`), &record); err != nil {
		b.t.Fatal(err)
	}
	out := map[claim]string{}
	for key, c := range record.Claims {
		prefix, name, _ := strings.Cut(key, ":")
		out[claim{prefix, name}] = c.Step
	}
	return out
}

// alterations lists changes of everything that a join made. What it made and nothing here alters is an error.
func (b *bed) alterations(t *testing.T, before, joined map[string]string) (all []alteration) {
	t.Helper()
	claims := b.claims()
	for _, line := range different(before, joined) {
		name, _, _ := strings.Cut(line, ": ")
		list := b.alterationsOf(name, joined[name], claims)
		foreign := slices.ContainsFunc(others, func(o struct{ prefix, why string }) bool {
			return strings.HasPrefix(name, o.prefix)
		})
		if list == nil && !foreign && !strings.HasPrefix(name, "hns ") {
			t.Errorf("nothing alters %s", line)
		}
		all = append(all, list...)
	}
	for _, s := range servicesOfNode {
		all = append(all, alterationsOfService(s, claims[claim{"service", s}])...)
	}
	all = append(all, b.alterationsOfNetwork(claims[claim{"hns_network", network}])...)
	slices.SortStableFunc(all, func(a, b alteration) int { return strings.Compare(a.name, b.name) })
	return all
}

const (
	servicesOf  = `registry HKEY_LOCAL_MACHINE\System\CurrentControlSet\Services\`
	rulesOf     = servicesOf + `SharedAccess\Parameters\FirewallPolicy\FirewallRules `
	variablesOf = `registry HKEY_LOCAL_MACHINE\System\CurrentControlSet\Control\Session Manager\Environment `
)

// alterationsOf lists changes of one thing of everything.
func (b *bed) alterationsOf(name, now string, claims map[claim]string) []alteration {
	if rel, isFile := strings.CutPrefix(name, "file "); isFile {
		return b.alterationsOfFile(`C:\`+rel, now, claims)
	}
	if strings.HasPrefix(name, rulesOf) {
		return alterationsOfRule(name, now, claims)
	}
	full, _ := strings.CutPrefix(name, "registry ")
	key, value, _ := strings.Cut(full, ` "`)
	value = strings.TrimSuffix(value, `"`)
	for c, step := range claims {
		as := strings.Replace(c.path, "HKLM", "HKEY_LOCAL_MACHINE", 1)
		if c.prefix == "registry" && strings.EqualFold(as, key+`\`+value) ||
			c.prefix == "env" && strings.EqualFold(c.path, value) && strings.HasPrefix(name, variablesOf) {
			return []alteration{
				{name: name + " changed", slot: name, step: step, shows: "other", value: full,
					edit: func(string) string { return `"other"` }},
				{name: name + " deleted", slot: name, step: step, value: full, edit: func(string) string { return "-" }},
			}
		}
	}
	service, isService := strings.CutPrefix(name, servicesOf)
	service, value, _ = strings.Cut(service, " ")
	if isService && slices.Contains(servicesOfNode, service) {
		return alterationsOfEnvironment(name, service, value, claims[claim{"service", service}])
	}
	return nil
}

// alterationsOfFile lists changes of a file or folder that a step made.
func (b *bed) alterationsOfFile(path, now string, claims map[claim]string) []alteration {
	here := b.host.Path(path)
	slot := "file " + path
	info, err := os.Stat(here)
	if err != nil {
		b.t.Fatal(err)
	}
	opened := func(step string) []alteration {
		if info.Mode()&0o007 != 0 || step == claims[claim{"source_vip", `C:\var\lib\cni\networks\` + network}] {
			return nil
		}
		return []alteration{{name: slot + " opened to others", slot: slot + `\access`, step: step, shows: "access",
			apply: func() error { return os.Chmod(here, info.Mode().Perm()|0o005) }}}
	}
	if path == `C:\ProgramData\nodejoin` { // each connection closes it before it reads anything there
		return []alteration{}
	}
	if step := claims[claim{"directory", path}]; step != "" {
		return append(opened(step), alteration{name: slot + " deleted", slot: slot, step: step,
			apply: func() error { return os.RemoveAll(here) }})
	}
	step := claims[claim{"file", path}]
	if step == "" {
		step = unclaimed[path]
	}
	if step == "" && strings.HasPrefix(path, `C:\var\lib\cni\networks\`+network+`\`) &&
		strings.HasPrefix(string(b.read(path)), "kube-proxy") {
		step = claims[claim{"source_vip", path[:strings.LastIndex(path, `\`)]}]
		slot = "file " + path[:strings.LastIndex(path, `\`)] + `\source VIP` // the address may be another one later
	}
	if step == "" || now == "" {
		return nil
	}
	shows := ""
	for c, other := range claims {
		if other == step && c.prefix == "file" && c.path != path { // one of many of an archive
			shows = strings.ReplaceAll(path, `\`, `\\`)
		}
	}
	return append(opened(step), []alteration{
		{name: slot + " deleted", slot: slot, step: step, shows: shows, apply: func() error { return os.Remove(here) }},
		{name: slot + " changed", slot: slot, step: step, shows: shows, apply: func() error {
			// Not in place: programs that run are mapped.
			part := here + ".part"
			return errors.Join(os.WriteFile(part, []byte("altered"), info.Mode().Perm()), os.Rename(part, here))
		}},
	}...)
}

// alterationsOfRule lists changes of a firewall rule, as the registry has it.
func alterationsOfRule(name, now string, claims map[claim]string) []alteration {
	_, rule, _ := strings.Cut(now, "|Name=")
	rule, _, _ = strings.Cut(rule, "|")
	step := claims[claim{"firewall_rule", rule}]
	if step == "" {
		return nil
	}
	value := strings.TrimPrefix(name, "registry ")
	slot := "rule " + rule
	list := []alteration{{name: slot + " deleted", slot: slot, step: step, value: value,
		edit: func(string) string { return "-" }}}
	for _, f := range []struct{ field, with, shows string }{
		{"Active", "FALSE", "enabled"}, {"LPort", "1", "ports"}, {"RA4", "203.0.113.1", "remote"},
		{"Action", "Block", "action"}, {"Dir", "Out", "direction"}, {"App", `C:\\other.exe`, "program"},
		{"Desc", "other", "description"}, {"EmbedCtxt", "other", "display_name"}, {"Profile", "1", "profiles domain"},
		{"Svc", "other", "service other"}, {"RPort", "5", "remote ports 5"},
	} {
		list = append(list, alteration{name: slot + ": " + f.field, slot: slot + `\` + f.field, step: step, shows: f.shows,
			value: value, edit: func(now string) string {
				head, rest, there := strings.Cut(now, "|"+f.field+"=")
				if !there {
					return strings.TrimSuffix(now, `"`) + f.field + "=" + f.with + `|"`
				}
				_, rest, _ = strings.Cut(rest, "|")
				return head + "|" + f.field + "=" + f.with + "|" + rest
			}})
	}
	return list
}

// alterationsOfService lists changes of a service by the service manager.
func alterationsOfService(service, step string) []alteration {
	slot := "service " + service
	var stop []string // with what depends on it
	for _, s := range servicesOfNode[:slices.Index(servicesOfNode, service)+1] {
		stop = append(stop, s, "stop", "")
	}
	list := []alteration{
		{name: slot + " stopped", slot: slot + `\state`, step: step, scm: stop},
		{name: slot + " deleted", slot: slot, step: step, scm: append(slices.Clone(stop), service, "delete", "")},
	}
	for _, p := range []struct{ property, value, part, shows string }{
		{"start", "manual", "start", "start"}, {"start", "disabled", "start", "start"},
		{"command", `C:\k\other.exe`, "command", "command"},
		{"display name", "other " + service, "display name", "display_name"},
		{"description", "other", "description", "description"},
		{"dependencies", "RpcSs", "dependencies", "depends_on"},
		{"recovery", "", `recovery\actions`, "1m17s"}, {"failure flag", "", `recovery\flag`, "restart_on_crash"},
		{"no recovery", "", "recovery", "recovery"}, {"account", `NT AUTHORITY\LocalService`, "account", "registration"},
		{"error control", "", "account", "registration"},
	} {
		list = append(list, alteration{name: slot + ": " + p.property + " " + p.value, slot: slot + `\` + p.part,
			step: step, shows: p.shows, scm: []string{service, p.property, p.value}})
	}
	return list
}

// alterationsOfEnvironment lists changes of what only the registry has of a service. The rest is changed by the
// service manager, which does not read the registry again.
func alterationsOfEnvironment(name, service, value, step string) []alteration {
	slot := "service " + service + `\environment`
	full := strings.TrimPrefix(name, "registry ")
	key, _, _ := strings.Cut(full, ` "`)
	switch value {
	case `"Environment"`:
		return []alteration{{name: slot + " deleted", slot: slot, step: step, shows: "environment", value: full,
			edit: func(string) string { return "-" }}}
	case `"Description"`: // each service has one
		return []alteration{{name: slot + " changed", slot: slot, step: step, shows: "environment",
			value: key + ` "Environment"`, edit: func(string) string { return asMultiString("OTHER=x") }}}
	}
	return []alteration{}
}

// asMultiString is a value of several strings in a file of regedit.
func asMultiString(list ...string) string {
	var hex []string
	for _, c := range utf16.Encode([]rune(strings.Join(list, "\x00") + "\x00\x00")) {
		hex = append(hex, fmt.Sprintf("%02x,%02x", c&0xff, c>>8))
	}
	return "hex(7):" + strings.Join(hex, ",")
}

// alterationsOfNetwork lists changes of flannel's network.
func (b *bed) alterationsOfNetwork(step string) []alteration {
	slot := "network " + network
	list := []alteration{{name: slot + " deleted", slot: slot, step: step, apply: b.deleteNetwork}}
	for what, f := range map[string]func(n map[string]any){
		"vni": func(n map[string]any) {
			for _, p := range firstSubnet(n)["Policies"].([]any) {
				p.(map[string]any)["Settings"].(map[string]any)["IsolationId"] = float64(4711)
			}
		},
		"subnet": func(n map[string]any) { firstSubnet(n)["IpAddressPrefix"] = "10.77.0.0/24" },
		"type":   func(n map[string]any) { n["Type"] = "L2Bridge" },
	} {
		list = append(list, alteration{name: slot + ": " + what, slot: slot + `\` + what, step: step, shows: what,
			apply: func() error {
				return b.network.Alter(network, func(n hns.Object) bool { f(n); return true })
			}})
	}
	return list
}

// deleteNetwork deletes flannel's network, and with it the virtual switch. It waits until the SSH server has cut the
// connections over the switch, so that it does not cut those of the next run.
func (b *bed) deleteNetwork() error {
	c, err := net.Dial("tcp", b.host.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Read(make([]byte, 1)); err != nil { // its version: it has accepted the connection
		return err
	}
	if err := b.network.Alter(network, func(hns.Object) bool { return false }); err != nil {
		return err
	}
	if _, err = io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the SSH server keeps a connection over the switch that has gone: %w", err)
	}
	return nil
}

func firstSubnet(n map[string]any) map[string]any {
	return n["Ipams"].([]any)[0].(map[string]any)["Subnets"].([]any)[0].(map[string]any)
}
