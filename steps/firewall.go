package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var firewallRuleKind = Kind{Name: "firewall_rule", Place: OnHost, OS: "windows", Doc: "a rule of the Windows Firewall",
	Undo:  map[record.Prefix]Undo{record.FirewallRule: {New: undoFirewallRule}},
	New:   func() any { return &FirewallRule{} },
	Makes: makes((*FirewallRule).thing)}

// FirewallRule is a firewall rule by its unique name.
type FirewallRule struct {
	host.FirewallRule
	Absent bool `json:"absent,omitempty" doc:"the rule must not exist"`
}

func (f *FirewallRule) thing(string) Thing {
	return Thing{Key: f.key(), Words: "the firewall rule " + f.Name}
}

func (f *FirewallRule) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	if err := f.validate(); err != nil {
		return Change{}, err
	}
	have, err := f.read(ctx, r)
	if err != nil {
		return Change{}, err
	}
	return f.diff(have), nil
}

func (f *FirewallRule) read(ctx context.Context, r host.Reader) (*host.FirewallRule, error) {
	v, err := r.FirewallRule(ctx, f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &v, err
}

func (f *FirewallRule) validate() error {
	switch {
	case f.Name == "":
		return Invalid("a firewall rule needs a name")
	case f.Absent:
		return nil
	case f.Direction != "in" && f.Direction != "out":
		return Invalid("firewall rule %s: direction %q is neither in nor out", f.Name, f.Direction)
	case f.Action != "allow" && f.Action != "block":
		return Invalid("firewall rule %s: action %q is neither allow nor block", f.Name, f.Action)
	case !host.ValidAddresses(f.Remote) && !HasRef(f.Remote):
		return Invalid("firewall rule %s: remote %q is no list of addresses and networks", f.Name, f.Remote)
	case f.Protocol != "tcp" && f.Protocol != "udp":
		return Invalid("firewall rule %s: protocol %q is neither tcp nor udp", f.Name, f.Protocol)
	}
	return nil
}

// want is the rule with the defaults that a machine fills in.
func (f *FirewallRule) want() host.FirewallRule {
	w := f.FirewallRule
	if w.DisplayName == "" {
		w.DisplayName = w.Name
	}
	w.Ports = strings.ReplaceAll(w.Ports, " ", "")
	w.Remote = host.Addresses(w.Remote)
	return w
}

// diff compares; have is nil when there is no such rule.
func (f *FirewallRule) diff(have *host.FirewallRule) Change {
	switch {
	case f.Absent && have == nil:
		return Change{}
	case f.Absent:
		return Change{Action: ActionDelete}
	}
	c := Change{Action: ActionUpdate}
	if have == nil {
		c.Action, have = ActionCreate, &host.FirewallRule{}
	}
	want := f.want()
	add := func(name, have, want string) {
		if have != want {
			c.Diffs = append(c.Diffs, Diff{Name: name, Have: have, Want: want})
		}
	}
	add("display_name", cmp.Or(have.DisplayName, have.Name), want.DisplayName)
	add("description", have.Description, want.Description)
	add("direction", have.Direction, want.Direction)
	add("action", have.Action, want.Action)
	add("protocol", have.Protocol, want.Protocol)
	add("ports", strings.ReplaceAll(have.Ports, " ", ""), want.Ports)
	add("remote", orAny(host.Addresses(have.Remote)), orAny(want.Remote))
	if !host.SamePath("windows", have.Program, want.Program) {
		add("program", have.Program, want.Program)
	}
	if c.Action == ActionCreate || have.Enabled != want.Enabled {
		add("enabled", fmt.Sprint(have.Enabled), fmt.Sprint(want.Enabled))
	}
	if c.Action == ActionUpdate && len(c.Diffs) == 0 {
		return Change{}
	}
	return c
}

func orAny(s string) string { return cmp.Or(s, "any") }

func (f *FirewallRule) key() record.Key { return record.FirewallRule.Of(f.Name) }

func (f *FirewallRule) Apply(ctx context.Context, h host.Host, e *Env, c Change) (Outcome, error) {
	have, err := f.read(ctx, h)
	if err != nil {
		return Outcome{}, err
	}
	var prev any
	if have != nil {
		prev = *have
	}
	if err := e.Claim(ctx, h, record.New{Key: f.key(), Previous: prev}); err != nil {
		return Outcome{}, err
	}
	if f.Absent {
		return Outcome{}, h.DeleteFirewallRule(ctx, f.Name)
	}
	return Outcome{}, h.PutFirewallRule(ctx, f.want())
}

func undoFirewallRule(key record.Key, claim record.Claim) (Undoing, error) {
	name := key.Name
	want, err := record.Previous[host.FirewallRule](claim)
	f := &FirewallRule{FirewallRule: want, Absent: !claim.Existed}
	f.Name = name
	return Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *Env) (Change, string, error) {
			have, err := f.read(ctx, r)
			if err != nil {
				return Change{}, "", err
			}
			c := f.diff(have)
			if !c.NoOp() && claim.Existed {
				c = restored(c.Diffs...)
			}
			return c, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *Env) error {
			if claim.Existed {
				return h.PutFirewallRule(ctx, want)
			}
			return h.DeleteFirewallRule(ctx, name)
		},
	}, err
}
