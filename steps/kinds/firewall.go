package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var firewallRuleKind = steps.Kind{Name: "firewall_rule", Place: steps.OnHost, Image: true, OS: "windows",
	Doc: "a rule of the Windows Firewall",
	Undo: map[record.Prefix]steps.Undo{record.FirewallRule: {Called: "firewall rule", New: undoFirewallRule,
		Now: firewallRuleNow}},
	New:      func() any { return &FirewallRule{} },
	Makes:    steps.Makes((*FirewallRule).thing),
	Render:   steps.RendersInto("firewall.json"),
	Evidence: steps.Shows(func(f *FirewallRule) []steps.Evidence { return []steps.Evidence{{Firewall: f.Name}} })}

// FirewallRule is a firewall rule by its unique name.
type FirewallRule struct {
	host.FirewallRule
	Absent   bool   `json:"absent,omitempty" doc:"the rule must not exist"`
	Listener string `json:"listener,omitempty" doc:"a service; the rule is for the ports at which it listens, too"`
}

func (f *FirewallRule) thing(string) steps.Thing {
	return steps.Thing{Key: f.key(), Words: "the firewall rule " + f.Name}
}

func (f *FirewallRule) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := f.validate(); err != nil {
		return steps.Change{}, err
	}
	have, err := f.read(ctx, r)
	if err == nil {
		f, err = f.withListener(ctx, r)
	}
	if err != nil {
		return steps.Change{}, err
	}
	return f.diff(have), nil
}

// withListener is the rule with the ports at which its Listener listens now. A router may forward another port to one
// of them, which the plan does not know.
func (f *FirewallRule) withListener(ctx context.Context, r host.Reader) (*FirewallRule, error) {
	if f.Listener == "" || f.Ports == "" {
		return f, nil
	}
	svc, err := r.Service(ctx, f.Listener)
	if errors.Is(err, fs.ErrNotExist) || err == nil && svc.PID == 0 {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	list, err := r.Listeners(ctx)
	if err != nil && !errors.Is(err, host.ErrUnsupported) {
		return f, err
	}
	out := *f
	for _, l := range list {
		port := strconv.Itoa(int(l.Port))
		if l.PID == svc.PID && l.Protocol == f.Protocol && !slices.Contains(strings.Split(out.want().Ports, ","), port) {
			out.Ports += "," + port
		}
	}
	return &out, nil
}

func (f *FirewallRule) read(ctx context.Context, r host.NetworkReader) (*host.FirewallRule, error) {
	v, err := r.FirewallRule(ctx, f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &v, err
}

func (f *FirewallRule) validate() error {
	switch {
	case f.Name == "":
		return steps.Invalid("a firewall rule needs a name")
	case f.Absent:
		return nil
	case f.Direction != "in" && f.Direction != "out":
		return steps.Invalid("firewall rule %s: direction %q is neither in nor out", f.Name, f.Direction)
	case f.Action != "allow" && f.Action != "block":
		return steps.Invalid("firewall rule %s: action %q is neither allow nor block", f.Name, f.Action)
	case !host.ValidAddresses(f.Remote) && !steps.HasRef(f.Remote):
		return steps.Invalid("firewall rule %s: remote %q is not a list of addresses and networks", f.Name, f.Remote)
	case f.Listener != "" && f.Direction != "in":
		return steps.Invalid("firewall rule %s: listener goes with the direction in", f.Name)
	case f.Protocol != "tcp" && f.Protocol != "udp":
		return steps.Invalid("firewall rule %s: protocol %q is neither tcp nor udp", f.Name, f.Protocol)
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
func (f *FirewallRule) diff(have *host.FirewallRule) steps.Change {
	switch {
	case f.Absent && have == nil:
		return steps.Change{}
	case f.Absent:
		return steps.Change{Action: steps.ActionDelete}
	}
	c := steps.Change{Action: steps.ActionUpdate}
	if have == nil {
		c.Action, have = steps.ActionCreate, &host.FirewallRule{}
	}
	want := f.want()
	add := func(name, have, want string) {
		if have != want {
			c.Diffs = append(c.Diffs, steps.Diff{Name: name, Have: have, Want: want})
		}
	}
	add("display_name", cmp.Or(have.DisplayName, have.Name), want.DisplayName)
	add("description", have.Description, want.Description)
	add("direction", have.Direction, want.Direction)
	add("action", have.Action, want.Action)
	add("protocol", have.Protocol, want.Protocol)
	add("ports", strings.ReplaceAll(have.Ports, " ", ""), want.Ports)
	add("remote", orAny(host.Addresses(have.Remote)), orAny(want.Remote))
	add("limits", cmp.Or(have.Limits.String(), "none"), cmp.Or(want.Limits.String(), "none"))
	if !host.SamePath("windows", have.Program, want.Program) {
		add("program", have.Program, want.Program)
	}
	if c.Action == steps.ActionCreate || have.Enabled != want.Enabled {
		add("enabled", fmt.Sprint(have.Enabled), fmt.Sprint(want.Enabled))
	}
	if c.Action == steps.ActionUpdate && len(c.Diffs) == 0 {
		return steps.Change{}
	}
	return c
}

func orAny(s string) string { return cmp.Or(s, "any") }

func (f *FirewallRule) key() record.Key { return record.FirewallRule.Of(f.Name) }

func (f *FirewallRule) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	have, err := f.read(ctx, h)
	if err == nil {
		f, err = f.withListener(ctx, h)
	}
	if err != nil {
		return steps.Outcome{}, err
	}
	var prev any
	if have != nil {
		prev = *have
	}
	if err := e.Claim(ctx, h, record.New{Key: f.key(), Previous: prev}); err != nil {
		return steps.Outcome{}, err
	}
	if f.Absent {
		return steps.Outcome{}, h.DeleteFirewallRule(ctx, f.Name)
	}
	return steps.Outcome{}, h.PutFirewallRule(ctx, f.want())
}

func firewallRuleNow(ctx context.Context, r host.Reader, _ *steps.Env, key record.Key, _ record.Claim) (any, error) {
	have, err := (&FirewallRule{FirewallRule: host.FirewallRule{Name: key.Name}}).read(ctx, r)
	if have == nil {
		return nil, err
	}
	return *have, err
}

func undoFirewallRule(key record.Key, claim record.Claim) (steps.Undoing, error) {
	name := key.Name
	want, err := record.Previous[host.FirewallRule](claim)
	f := &FirewallRule{FirewallRule: want, Absent: !claim.Existed}
	f.Name = name
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := f.read(ctx, r)
			if err != nil {
				return steps.Change{}, "", err
			}
			c := f.diff(have)
			if !c.NoOp() && claim.Existed {
				c = steps.Restored(c.Diffs...)
			}
			return c, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			if claim.Existed {
				return h.PutFirewallRule(ctx, want)
			}
			return h.DeleteFirewallRule(ctx, name)
		},
	}, err
}
