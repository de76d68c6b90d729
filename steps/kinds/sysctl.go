package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// sysctlPrefix is that of the claims.
const sysctlPrefix record.Prefix = "sysctl"

var sysctlKind = steps.Kind{Name: "sysctl", Place: steps.OnHost, Image: true, OS: "linux",
	Doc:   "Linux: a kernel parameter, now and after every boot",
	Undo:  map[record.Prefix]steps.Undo{sysctlPrefix: {Called: "kernel parameter", New: undoSysctl, Now: sysctlNow}},
	New:   func() any { return &Sysctl{} },
	Makes: steps.Makes((*Sysctl).thing), Claims: steps.Claims((*Sysctl).claims)}

// Sysctl is a kernel parameter and the file that sets it at boot,
// /etc/sysctl.d/90-nodejoin-NAME.conf (sysctl.d(5)). A file that sorts later may say
// otherwise at boot; the running value counts at every check.
type Sysctl struct {
	Name  string `json:"name" doc:"its name with dots, for example net.ipv4.ip_forward" id:"true"`
	Value string `json:"value" doc:"its value, as sysctl shows it"`
}

func (s *Sysctl) thing(string) steps.Thing { return steps.Thing{Key: sysctlPrefix.Of(s.Name)} }

func (s *Sysctl) claims(*steps.Env) []record.Key {
	return []record.Key{sysctlPrefix.Of(s.Name), record.File.Of(s.file().Path)}
}

func sysctlNow(ctx context.Context, r host.Reader, _ *steps.Env, key record.Key, _ record.Claim) (any, error) {
	have, err := r.Sysctl(ctx, key.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return have, err
}

var sysctlName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_:@+-]+)+$`)

func (s *Sysctl) validate(os string) error {
	switch {
	case os == "windows":
		return steps.Invalid("kernel parameter %s: Windows has none", s.Name)
	case !sysctlName.MatchString(s.Name):
		return steps.Invalid("%q is not the name of a kernel parameter such as net.ipv4.ip_forward", s.Name)
	case strings.TrimSpace(s.Value) == "" || strings.ContainsAny(s.Value, "\r\n\x00"):
		return steps.Invalid("kernel parameter %s: the value %q is not one line of text", s.Name, s.Value)
	}
	return nil
}

// want is the value as a host gives it.
func (s *Sysctl) want() string { return strings.Join(strings.Fields(s.Value), " ") }

func (s *Sysctl) file() *File {
	return &File{Path: "/etc/sysctl.d/90-nodejoin-" + s.Name + ".conf",
		Content: "# Managed by nodejoin.\n" + s.Name + " = " + s.want() + "\n"}
}

// Check compares. A parameter that the kernel does not have yet is waited for only
// where an earlier step is about to load a module.
func (s *Sysctl) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := s.validate(e.Facts.OS); err != nil {
		return steps.Change{}, err
	}
	var diffs []steps.Diff
	have, err := r.Sysctl(ctx, s.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !moduleComes(e) {
			return steps.Change{}, s.missing()
		}
		diffs = append(diffs, steps.Diff{Name: "value", Want: s.want()})
	case err != nil:
		return steps.Change{}, err
	case have != s.want():
		diffs = append(diffs, steps.Diff{Name: "value", Have: have, Want: s.want()})
	}
	boot, err := s.file().Check(ctx, r, e)
	return atBoot(diffs, boot, s.file().Path), err
}

func (s *Sysctl) missing() error {
	return &steps.Error{Code: steps.CodeFailed, Summary: "no such kernel parameter",
		Detail: fmt.Sprintf("the kernel has no %s", s.Name),
		Remedy: "load the module that provides it with a kernel_module step before this one (net.bridge.* comes with " +
			"br_netfilter), or fix the name"}
}

func (s *Sysctl) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	have, err := h.Sysctl(ctx, s.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return steps.Outcome{}, s.missing()
	}
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := e.Claim(ctx, h, record.New{Key: sysctlPrefix.Of(s.Name), Previous: have}); err != nil {
		return steps.Outcome{}, err
	}
	if err := applyFile(ctx, h, e, s.file()); err != nil {
		return steps.Outcome{}, err
	}
	if have == s.want() {
		return steps.Outcome{}, nil
	}
	return steps.Outcome{}, h.SetSysctl(ctx, s.Name, s.want())
}

// moduleComes reports whether an earlier step is about to load a module.
func moduleComes(e *steps.Env) bool {
	for t := range e.Pending {
		if t.Module != "" {
			return true
		}
	}
	return false
}

// atBoot is the change of a thing of the kernel and of the file that repeats it at boot.
func atBoot(diffs []steps.Diff, boot steps.Change, path string) steps.Change {
	if !boot.NoOp() {
		diffs = append(diffs, steps.Diff{Name: "at boot",
			Have: map[steps.Action]string{steps.ActionUpdate: "differs"}[boot.Action], Want: "set by " + path})
	}
	if len(diffs) == 0 {
		return steps.Change{}
	}
	c := steps.Change{Action: steps.ActionUpdate, Diffs: diffs, Touches: boot.Touches, Digests: boot.Digests}
	if boot.Action == steps.ActionCreate {
		c.Action = steps.ActionCreate
	}
	return c
}

// applyFile makes a file as a step of its own would, where it differs.
func applyFile(ctx context.Context, h host.Host, e *steps.Env, f *File) error {
	c, err := f.Check(ctx, h, e)
	if err != nil || c.NoOp() {
		return err
	}
	_, err = f.Apply(ctx, h, e, c)
	return err
}

// undoSysctl restores the earlier value of a parameter. One that the kernel no longer has
// needs nothing.
func undoSysctl(key record.Key, claim record.Claim) (steps.Undoing, error) {
	name := key.Name
	want, err := record.Previous[string](claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := r.Sysctl(ctx, name)
			if errors.Is(err, fs.ErrNotExist) || err == nil && have == want {
				return steps.Change{}, "", nil
			}
			if err != nil {
				return steps.Change{}, "", err
			}
			return steps.Restored(steps.Diff{Name: "value", Have: have, Want: want}), "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error { return h.SetSysctl(ctx, name, want) },
	}, err
}
