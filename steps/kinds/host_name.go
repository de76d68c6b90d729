package kinds

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// hostNamePrefix is that of the claims.
const hostNamePrefix record.Prefix = "host_name"

var hostNameKind = steps.Kind{Name: "host_name", Place: steps.OnHost, AfterBoot: true,
	Doc: "the machine's own name; on Windows it counts after a reboot",
	Undo: map[record.Prefix]steps.Undo{hostNamePrefix: {Called: "host name", New: undoHostName,
		Snapshot: steps.SnapshotNone,
		Stays:    "the Node is known by it; the earlier name is restored when the machine leaves"}},
	New:    func() any { return &HostName{} },
	Claims: steps.Claims((*HostName).claims),
	Makes:  steps.Makes((*HostName).thing)}

// HostName is the name of the machine. Names have no case (RFC 1123), so one that
// differs in that only is left as it is. Whether a name counts already on Windows is for
// the step reboot.
type HostName struct {
	Name string `json:"name" doc:"letters, digits and '-', at most 63, without a domain" id:"true"`
}

// hostNameKey is the key of the claim that holds the earlier name.
var hostNameKey = hostNamePrefix.Of("machine")

func (n *HostName) thing(string) steps.Thing {
	return steps.Thing{Key: hostNameKey, Words: "the machine's name"}
}

func (n *HostName) claims(*steps.Env) []record.Key { return []record.Key{hostNameKey} }

func (n *HostName) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if why := host.HostNameFault(n.Name); why != "" {
		return steps.Change{}, steps.Invalid("the name %q %s", n.Name, why)
	}
	have, err := r.HostName(ctx)
	if err != nil {
		return steps.Change{}, err
	}
	c := nameChange(e.Facts.OS, have, n.Name)
	if !c.NoOp() && have.Domain != "" {
		return steps.Change{}, &steps.Error{Code: steps.CodeFailed, Summary: "the machine is in a domain",
			Detail: fmt.Sprintf("it is %s in the domain %s, and its account there would not be renamed with it: the domain "+
				"would not know it any more", have.Now, have.Domain),
			Remedy: "rename it with an account of the domain (netdom renamecomputer), or take the host name out of the plan"}
	}
	if !c.NoOp() && e.Facts.OS == "windows" {
		c.Touches = []steps.Touch{{Reboot: newName + n.Name}}
	}
	return c, nil
}

// nameChange compares the name that the machine will have with one that it should.
func nameChange(os string, have host.HostName, want string) steps.Change {
	var diffs []steps.Diff
	if os != "windows" && !strings.EqualFold(have.Now, want) {
		diffs = append(diffs, steps.Diff{Name: "name", Have: have.Now, Want: want})
	}
	if !strings.EqualFold(have.Next, want) {
		name := "name after a reboot"
		if os != "windows" {
			name = "name at boot"
		}
		diffs = append(diffs, steps.Diff{Name: name, Have: have.Next, Want: want})
	}
	if diffs == nil {
		return steps.Change{}
	}
	return steps.Change{Action: steps.ActionUpdate, Diffs: diffs}
}

func (n *HostName) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	have, err := h.HostName(ctx)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := e.Claim(ctx, h, record.New{Key: hostNameKey, Previous: cmp.Or(have.Next, have.Now)}); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, rename(ctx, h, e, newName+n.Name, n.Name)
}

// rename notes first what a reboot is for, where it needs one: a run that ends behind
// that reboots once too often rather than not at all.
func rename(ctx context.Context, h host.Host, e *steps.Env, what, name string) error {
	if e.Facts.OS == "windows" {
		if err := h.NoteReboot(ctx, what); err != nil {
			return err
		}
	}
	return h.SetHostName(ctx, name)
}

// undoHostName restores the machine's earlier name.
func undoHostName(_ record.Key, claim record.Claim) (steps.Undoing, error) {
	want, err := record.Previous[string](claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
			have, err := r.HostName(ctx)
			if err != nil {
				return steps.Change{}, "", err
			}
			c := nameChange(e.Facts.OS, have, want)
			switch {
			case c.NoOp():
				return steps.Change{}, "", nil
			case have.Domain != "":
				return steps.Change{}, fmt.Sprintf("the machine is in the domain %s now and keeps its name", have.Domain), nil
			}
			c = steps.Restored(c.Diffs...)
			if e.Facts.OS == "windows" {
				c.Reason += "; counts after a reboot"
			}
			return c, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, e *steps.Env) error {
			return rename(ctx, h, e, "the machine's earlier name "+want, want)
		},
	}, err
}

// namePending is the name that a machine is to have and has after a reboot only.
func namePending(ctx context.Context, r host.SystemReader, want string) (bool, error) {
	have, err := r.HostName(ctx)
	return err == nil && strings.EqualFold(have.Next, want) && !strings.EqualFold(have.Now, want), err
}
