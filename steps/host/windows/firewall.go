//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	ole "github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"

	"nodejoin/steps/host"
)

// Classes of the firewall's COM interface and the values of its enumerations, from netfw.h:
// https://learn.microsoft.com/windows/win32/api/netfw/
var (
	classPolicy = ole.NewGUID("{E2B3C97F-6AE1-41AC-817A-F6F92166D7DD}") // HNetCfg.FwPolicy2
	classRule   = ole.NewGUID("{2C5BC43E-3369-4C33-AB0C-BE9469677AF4}") // HNetCfg.FWRule
)

var (
	directions = []enumName{{1, "in"}, {2, "out"}}      // NET_FW_RULE_DIRECTION
	actions    = []enumName{{0, "block"}, {1, "allow"}} // NET_FW_ACTION
	protocols  = []enumName{{6, "tcp"}, {17, "udp"}}    // NET_FW_IP_PROTOCOL
	// NET_FW_PROFILE_TYPE2
	profileBits = []enumName{{1, "domain"}, {2, "private"}, {4, "public"}}
)

const (
	allProfiles = 0x7fffffff // NET_FW_PROFILE2_ALL
	// sameNameLimit bounds how many rules of one name a put removes; the firewall itself does not keep
	// names unique.
	sameNameLimit = 100
)

type enumName struct {
	value int32
	name  string
}

func enumValue(names []enumName, what, name string) (int32, error) {
	for _, n := range names {
		if n.name == name {
			return n.value, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q", what, name)
}

func nameOf(names []enumName, value int32) string {
	for _, n := range names {
		if n.value == value {
			return n.name
		}
	}
	return fmt.Sprint(value)
}

// withRules calls f with the collection of the firewall's rules. A machine
// without the firewall's classes is unsupported.
func withRules(ctx context.Context, op, name string, f func(rules object) error) error {
	if ctx.Err() != nil {
		return failed(op, name, context.Cause(ctx))
	}
	err := withCOM(func() error {
		policy, err := newObject(classPolicy)
		if err != nil {
			return err
		}
		defer policy.Release()
		rules, err := policy.child(oleutil.GetProperty, "Rules")
		if err != nil {
			return err
		}
		defer rules.Release()
		return f(rules)
	})
	var code hresultError
	if errors.As(err, &code) {
		switch code {
		case hresultWin32FileAbsent:
			err = fs.ErrNotExist
		case hresultNotRegistered, hresultNotImplemented, hresultNoMember:
			err = fmt.Errorf("%w: the Windows Firewall cannot be reached (%w)", host.ErrUnsupported, err)
		}
	}
	return failed(op, name, err)
}

// FirewallRule reads a rule by name. The COM interface has one name for a rule,
// which is also what the firewall's console shows; DisplayName is kept in the
// rule's group, which the console shows beside it.
func (h *Host) FirewallRule(ctx context.Context, name string) (host.FirewallRule, error) {
	var r host.FirewallRule
	err := withRules(ctx, "read firewall rule", name, func(rules object) error {
		rule, err := rules.child(oleutil.CallMethod, "Item", name)
		if err != nil {
			return err
		}
		defer rule.Release()
		r, err = readRule(rule)
		return err
	})
	return r, err
}

// profileNames are the names of profiles, "" for all.
func profileNames(bits int32) string {
	var out []string
	for _, p := range profileBits {
		if bits&p.value != 0 {
			out = append(out, p.name)
		}
	}
	if len(out) == len(profileBits) {
		return ""
	}
	return strings.Join(out, ",")
}

func profilesOf(names string) (int32, error) {
	if names == "" {
		return allProfiles, nil
	}
	bits := int32(0)
	for name := range strings.SplitSeq(names, ",") {
		bit, err := enumValue(profileBits, "profile", name)
		if err != nil {
			return 0, err
		}
		bits |= bit
	}
	return bits, nil
}

func readRule(rule object) (r host.FirewallRule, err error) {
	for _, p := range []struct {
		name string
		to   *string
	}{
		{"Name", &r.Name}, {"Grouping", &r.DisplayName}, {"Description", &r.Description},
		{"LocalPorts", &r.Ports}, {"ApplicationName", &r.Program}, {"RemoteAddresses", &r.Remote},
		{"serviceName", &r.Limits.Service}, {"RemotePorts", &r.Limits.RemotePorts},
	} {
		if *p.to, err = rule.text(p.name); err != nil {
			return r, err
		}
	}
	if r.Ports = strings.ReplaceAll(r.Ports, " ", ""); r.Ports == "*" {
		r.Ports = ""
	}
	r.Remote = host.Addresses(r.Remote)
	if r.Limits.RemotePorts == "*" {
		r.Limits.RemotePorts = ""
	}
	profiles, err := rule.number("Profiles")
	if err != nil {
		return r, err
	}
	r.Limits.Profiles = profileNames(profiles)
	for _, p := range []struct {
		name  string
		names []enumName
		to    *string
	}{
		{"Direction", directions, &r.Direction}, {"Action", actions, &r.Action}, {"Protocol", protocols, &r.Protocol},
	} {
		value, err := rule.number(p.name)
		if err != nil {
			return r, err
		}
		*p.to = nameOf(p.names, value)
	}
	r.Enabled, err = rule.flag("Enabled")
	return r, err
}

// PutFirewallRule adds the rule, for all profiles unless it has others, in place of those of the same name.
func (h *Host) PutFirewallRule(ctx context.Context, r host.FirewallRule) error {
	return withRules(ctx, "put firewall rule", r.Name, func(rules object) error {
		rule, err := newRule(r)
		if err != nil {
			return err
		}
		defer rule.Release()
		if err := removeRules(rules, r.Name); err != nil {
			return err
		}
		return rules.call("Add", rule.IDispatch)
	})
}

func newRule(r host.FirewallRule) (object, error) {
	if r.Name == "" {
		return object{}, errors.New("the rule has no name")
	}
	direction, err1 := enumValue(directions, "direction", r.Direction)
	action, err2 := enumValue(actions, "action", r.Action)
	protocol, err3 := enumValue(protocols, "protocol", r.Protocol)
	profiles, err4 := profilesOf(r.Limits.Profiles)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return object{}, err
	}
	rule, err := newObject(classRule)
	if err != nil {
		return object{}, err
	}
	// The protocol comes before the ports, which the firewall checks against it.
	for _, p := range []struct {
		name  string
		value any
		set   bool
	}{
		{"Name", r.Name, true},
		{"Grouping", r.DisplayName, r.DisplayName != ""},
		{"Description", r.Description, r.Description != ""},
		{"ApplicationName", r.Program, r.Program != ""},
		{"Protocol", protocol, true},
		{"LocalPorts", r.Ports, r.Ports != ""},
		{"RemoteAddresses", r.Remote, r.Remote != ""},
		{"Direction", direction, true},
		{"Action", action, true},
		{"Profiles", profiles, true},
		{"serviceName", r.Limits.Service, r.Limits.Service != ""},
		{"RemotePorts", r.Limits.RemotePorts, r.Limits.RemotePorts != ""},
		{"Enabled", r.Enabled, true},
	} {
		if !p.set {
			continue
		}
		if err := rule.put(p.name, p.value); err != nil {
			rule.Release()
			return object{}, err
		}
	}
	return rule, nil
}

// removeRules removes every rule of the name.
func removeRules(rules object, name string) error {
	for range sameNameLimit {
		rule, err := rules.child(oleutil.CallMethod, "Item", name)
		if errors.Is(err, hresultError(hresultWin32FileAbsent)) {
			return nil
		}
		if err != nil {
			return err
		}
		rule.Release()
		if err := rules.call("Remove", name); err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d rules have this name", sameNameLimit)
}

// DeleteFirewallRule removes every rule of the name; absence is not an error.
func (h *Host) DeleteFirewallRule(ctx context.Context, name string) error {
	return withRules(ctx, "delete firewall rule", name, func(rules object) error {
		return removeRules(rules, name)
	})
}
