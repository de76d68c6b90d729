package kinds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var registryKind = steps.Kind{Name: "registry", Place: steps.OnHost, Image: true, OS: "windows",
	Doc: "a registry value, or its absence",
	Undo: map[record.Prefix]steps.Undo{
		record.Registry: {Called: "registry value", New: undoRegistry, Early: notOfService, Now: registryNow},
		record.RegistryKey: {Called: "registry key", New: undoRegistryKey,
			Holds: func(_ *steps.Env, name string, key record.Key) bool {
				registry := key.Prefix == record.Registry || key.Prefix == record.RegistryKey
				return registry && strings.HasPrefix(strings.ToLower(key.Name), strings.ToLower(name)+`\`)
			}},
	},
	New:   func() any { return &Registry{} },
	Makes: steps.Makes((*Registry).thing), Review: steps.Review((*Registry).review),
	Render: steps.RendersInto("registry.json")}

// Registry is one value of a registry key.
type Registry struct {
	Key  string `json:"key" doc:"for example HKLM\\SYSTEM\\CurrentControlSet\\Services\\hns\\State" id:"true"`
	Name string `json:"name" doc:"name of the value; \"\" is the key's default value" id:"true"`
	host.RegistryValue
	Absent bool `json:"absent,omitempty" doc:"the value must not exist"`
	// Reboot names the value in the reason for a reboot.
	Reboot string `json:"reboot,omitempty" doc:"the value counts after a reboot only: what it is, in words"`
}

func (g *Registry) thing(string) steps.Thing {
	return steps.Thing{Key: g.key(), Words: "the registry value " + g.Key + `\` + g.Name}
}

// dataOf is the argument that holds the data of a type.
var dataOf = map[string]string{"string": "string", "expand_string": "string", "multi_string": "strings",
	"dword": "number", "qword": "number", "binary": "binary"}

func (g *Registry) review(w steps.Written) (out []steps.Remark) {
	want, known := dataOf[g.Type]
	for _, name := range []string{"string", "strings", "number", "binary"} {
		if known && name != want && w.Has(name) {
			out = append(out, steps.Remark{Arg: name, Detail: fmt.Sprintf("With type = %q the argument %q has no effect: "+
				"the data of that type is the argument %q. Remove one of the two.", g.Type, name, want)})
		}
	}
	return out
}

func (g *Registry) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := g.validate(); err != nil {
		return steps.Change{}, err
	}
	have, err := g.read(ctx, r)
	if err != nil {
		return steps.Change{}, err
	}
	c := g.diff(have)
	if !c.NoOp() && g.Reboot != "" {
		c.Touches = []steps.Touch{{Reboot: g.Reboot}}
	}
	return c, nil
}

func (g *Registry) read(ctx context.Context, r host.RegistryReader) (*host.RegistryValue, error) {
	v, err := r.RegistryValue(ctx, g.Key, g.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &v, err
}

// validate wants data in the one field that the type uses.
func (g *Registry) validate() error {
	v := g.RegistryValue
	where := fmt.Sprintf(`value %q of %s`, g.Name, g.Key)
	if g.Absent {
		if v.Type != "" || v.String != "" || len(v.Strings) > 0 || v.Number != 0 || len(v.Binary) > 0 {
			return steps.Invalid("%s is to be absent, so it takes neither type nor data", where)
		}
		return nil
	}
	isString, isNumber := v.Type == "string" || v.Type == "expand_string", v.Type == "dword" || v.Type == "qword"
	switch {
	case !isString && !isNumber && v.Type != "multi_string" && v.Type != "binary":
		return steps.Invalid("%s: type %q is not one of string, expand_string, multi_string, dword, qword, binary", where,
			v.Type)
	case v.String != "" && !isString, len(v.Strings) > 0 && v.Type != "multi_string", v.Number != 0 && !isNumber,
		len(v.Binary) > 0 && v.Type != "binary":
		return steps.Invalid("%s: its data is not in the argument that type %s uses", where, v.Type)
	case v.Type == "dword" && v.Number > math.MaxUint32:
		return steps.Invalid("%s: %d does not fit into a dword (at most %d)", where, v.Number, uint32(math.MaxUint32))
	case slices.Contains(v.Strings, ""):
		return steps.Invalid("%s: a multi_string cannot hold an empty string", where)
	}
	return nil
}

// diff compares; have is nil when the value is not there.
func (g *Registry) diff(have *host.RegistryValue) steps.Change {
	switch {
	case g.Absent && have == nil:
		return steps.Change{}
	case g.Absent:
		return steps.Change{Action: steps.ActionDelete, Diffs: []steps.Diff{{Name: "value", Have: registryText(*have)}}}
	case have == nil:
		return steps.Change{Action: steps.ActionCreate,
			Diffs: []steps.Diff{{Name: "value", Want: registryText(g.RegistryValue)}}}
	case sameRegistryValue(*have, g.RegistryValue):
		return steps.Change{}
	}
	return steps.Change{Action: steps.ActionUpdate,
		Diffs: []steps.Diff{{Name: "value", Have: registryText(*have), Want: registryText(g.RegistryValue)}}}
}

func sameRegistryValue(a, b host.RegistryValue) bool {
	return a.Type == b.Type && a.String == b.String && slices.Equal(a.Strings, b.Strings) && a.Number == b.Number &&
		bytes.Equal(a.Binary, b.Binary)
}

func registryText(v host.RegistryValue) string {
	switch v.Type {
	case "dword", "qword":
		return fmt.Sprintf("%s %d", v.Type, v.Number)
	case "multi_string":
		return fmt.Sprintf("%s %q", v.Type, v.Strings)
	case "binary":
		return fmt.Sprintf("%s %x", v.Type, v.Binary)
	}
	if steps.HasRef(v.String) {
		return v.Type + " " + v.String
	}
	return fmt.Sprintf("%s %q", v.Type, v.String)
}

func (g *Registry) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	have, err := g.read(ctx, h)
	if err != nil {
		return steps.Outcome{}, err
	}
	var prev any
	if have != nil {
		prev = *have
	}
	claims, err := missingKeys(ctx, h, g.Key)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := e.Claim(ctx, h, append(claims, record.New{Key: g.key(), Previous: prev, Detail: g.Name})...); err != nil {
		return steps.Outcome{}, err
	}
	if g.Reboot != "" {
		// First: a run that ends behind it reboots once too often rather than not at all.
		if err := h.NoteReboot(ctx, g.Reboot); err != nil {
			return steps.Outcome{}, err
		}
	}
	if g.Absent {
		return steps.Outcome{}, h.DeleteRegistryValue(ctx, g.Key, g.Name)
	}
	return steps.Outcome{}, h.SetRegistryValue(ctx, g.Key, g.Name, g.RegistryValue)
}

func (g *Registry) key() record.Key { return record.RegistryValueKey(g.Key, g.Name) }

// missingKeys are claims of a key and those above it that are not there, the outermost
// first: a value that is written makes them.
func missingKeys(ctx context.Context, r host.RegistryReader, key string) ([]record.New, error) {
	var out []record.New
	for ; strings.Contains(key, `\`); key = key[:strings.LastIndex(key, `\`)] {
		_, _, err := r.RegistryNames(ctx, key)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		out = append(out, record.New{Key: record.RegistryKey.Of(key)})
	}
	slices.Reverse(out)
	return out, nil
}

// notOfService reports whether a value is not a parameter of a service, which reads it until
// its step has given it another program.
func notOfService(key record.Key) bool {
	return !strings.HasPrefix(strings.ToLower(key.Name), strings.ToLower(host.CurrentControlSet+`Services\`))
}

func registryNow(ctx context.Context, r host.Reader, _ *steps.Env, key record.Key, claim record.Claim) (any, error) {
	have, err := (&Registry{Key: key.RegistryPath(claim.Detail), Name: claim.Detail}).read(ctx, r)
	if have == nil {
		return nil, err
	}
	return *have, err
}

func undoRegistry(key record.Key, claim record.Claim) (steps.Undoing, error) {
	want, err := record.Previous[host.RegistryValue](claim)
	path := key.RegistryPath(claim.Detail)
	g := &Registry{Key: path, Name: claim.Detail, RegistryValue: want, Absent: !claim.Existed}
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := g.read(ctx, r)
			if err != nil {
				return steps.Change{}, "", err
			}
			c := g.diff(have)
			if !c.NoOp() && claim.Existed {
				c = steps.Restored(c.Diffs...)
			}
			return c, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			if claim.Existed {
				return h.SetRegistryValue(ctx, path, g.Name, want)
			}
			return h.DeleteRegistryValue(ctx, path, g.Name)
		},
	}, err
}

// undoRegistryKey removes a key that nodejoin made, once it holds nothing.
func undoRegistryKey(key record.Key, _ record.Claim) (steps.Undoing, error) {
	path := key.Name
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			keys, values, err := r.RegistryNames(ctx, path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return steps.Change{}, "", nil
			case err != nil || len(keys)+len(values) > 0:
				return steps.Change{}, "", err // somebody else uses it
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error { return h.DeleteRegistryKey(ctx, path) },
	}, nil
}
