package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// undo puts one claimed thing back. look only reads: the Change says what is still to
// be done, and left why something stays that cannot or must not be put back ("" =
// nothing stays). do does it, and may be interrupted and called again.
type undo struct {
	look func(ctx context.Context, r host.Reader, e *Env) (c Change, left string, err error)
	do   func(ctx context.Context, h host.Host, e *Env) error
}

// undoes gives the undo of a claim by the prefix of its key. Each claim of a kind must
// have one; rest is the key without prefix and colon.
var undoes = map[string]func(rest string, o Owned) (undo, error){
	"service":        undoService,
	"feature":        undoFeature,
	"host_name":      undoHostName,
	"hns_network":    undoNetwork,
	"interface":      undoInterface,
	"chains":         undoChains,
	"filter_table":   undoFilterTable,
	"routes":         undoRoutes,
	"netns":          undoNamespaces,
	"firewall_rule":  undoFirewallRule,
	"registry":       undoRegistry,
	"registry_key":   undoRegistryKey,
	"sysctl":         undoSysctl,
	"dynamic_ports":  undoDynamicPorts,
	"reserved_ports": undoReservedPorts,
	"trusted_ca":     undoTrustedCA,
	"env":            undoEnv,
	"env_file":       undoEnvFile,
	"source_vip":     undoSourceVIP,
	"made":           undoMade,
	"aside":          undoAside,
	"file":           undoFile,
	"directory":      undoDirectory,
}

// undoOf finds the undo of a claim.
func undoOf(key string, o Owned) (undo, error) {
	prefix, rest, _ := strings.Cut(key, ":")
	f, ok := undoes[prefix]
	if !ok {
		return undo{}, &Error{Code: CodeInvalid, Summary: "the record holds what this nodejoin cannot put back", Detail: key,
			Remedy: "leave with the nodejoin that made it, or a newer one"}
	}
	return f(rest, o)
}

// previous reads the earlier state of a claim.
func previous[T any](o Owned) (v T, err error) {
	if o.Existed {
		if err = json.Unmarshal(o.Previous, &v); err != nil {
			err = fmt.Errorf("the earlier state in the record: %w", err)
		}
	}
	return v, err
}

// restored is the Change of something that is put back to what it was.
func restored(diffs ...Diff) Change {
	return Change{Action: ActionUpdate, Reason: "as it was before nodejoin", Diffs: diffs}
}

// undoService stops and unregisters a service. One that something else registered
// since under the same name is not touched; others that depend on it must go first.
func undoService(name string, _ Owned) (undo, error) {
	return undo{
		look: func(ctx context.Context, r host.Reader, e *Env) (Change, string, error) {
			svc, err := r.Service(ctx, name)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return Change{}, "", nil
			case err != nil:
				return Change{}, "", err
			case svc.Description != "" && !strings.HasSuffix(strings.TrimSpace(svc.Description), OwnershipMark):
				// Without any description it is a registration of ours that was interrupted.
				return Change{}, "its description says no more that nodejoin manages it: it is taken for somebody else's", nil
			}
			dependents, err := r.Dependents(ctx, name)
			if err != nil {
				return Change{}, "", err
			}
			for _, d := range dependents {
				other, err := r.Service(ctx, d)
				if err == nil && !ours(other, e.Record) {
					return Change{}, "", &Error{Code: CodeFailed, Summary: "a service of others depends on ours",
						Detail: fmt.Sprintf("service %s runs and depends on %s", d, name), Remedy: "stop and unregister it, or take the dependency from it; then leave again"}
				}
			}
			return Change{Action: ActionDelete, Reason: "it is " + string(svc.State)}, "", nil
		},
		do: func(ctx context.Context, h host.Host, e *Env) error {
			if err := stopService(ctx, h, e, name); err != nil {
				return err
			}
			if err := h.DeleteService(ctx, name); err != nil && !errors.Is(err, host.ErrMarkedDeleted) {
				return err
			}
			delete(e.Record.Fingerprints, name)
			delete(e.Record.Starts, name)
			delete(e.Record.Stopped, name)
			// A service that others hold open is gone when they let go of it.
			return wait.Until(ctx, lookMost, func() (bool, error) {
				_, err := h.Service(ctx, name)
				if errors.Is(err, fs.ErrNotExist) {
					return true, nil
				}
				return false, err
			})
		},
	}, nil
}

func undoNetwork(name string, o Owned) (undo, error) {
	return undo{
		look: func(ctx context.Context, r host.Reader, e *Env) (Change, string, error) {
			_, err := r.HNSNetwork(ctx, name)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, host.ErrUnsupported):
				return Change{}, "", nil
			case err != nil:
				return Change{}, "", err
			case o.Existed:
				return Change{}, "it was there before nodejoin", nil
			}
			return Change{Action: ActionDelete}, "", nil
		},
		do: func(ctx context.Context, h host.Host, _ *Env) error { return h.DeleteHNSNetwork(ctx, name) },
	}, nil
}

func undoFirewallRule(name string, o Owned) (undo, error) {
	want, err := previous[host.FirewallRule](o)
	f := &FirewallRule{FirewallRule: want, Absent: !o.Existed}
	f.Name = name
	return undo{
		look: func(ctx context.Context, r host.Reader, _ *Env) (Change, string, error) {
			have, err := f.read(ctx, r)
			if err != nil {
				return Change{}, "", err
			}
			c := f.diff(have)
			if !c.NoOp() && o.Existed {
				c = restored(c.Diffs...)
			}
			return c, "", nil
		},
		do: func(ctx context.Context, h host.Host, _ *Env) error {
			if o.Existed {
				return h.PutFirewallRule(ctx, want)
			}
			return h.DeleteFirewallRule(ctx, name)
		},
	}, err
}

func undoRegistry(rest string, o Owned) (undo, error) {
	want, err := previous[host.RegistryValue](o)
	key := strings.TrimSuffix(rest, `\`+o.Detail)
	g := &Registry{Key: key, Name: o.Detail, RegistryValue: want, Absent: !o.Existed}
	return undo{
		look: func(ctx context.Context, r host.Reader, _ *Env) (Change, string, error) {
			have, err := g.read(ctx, r)
			if err != nil {
				return Change{}, "", err
			}
			c := g.diff(have)
			if !c.NoOp() && o.Existed {
				c = restored(c.Diffs...)
			}
			return c, "", nil
		},
		do: func(ctx context.Context, h host.Host, _ *Env) error {
			if o.Existed {
				return h.SetRegistryValue(ctx, key, g.Name, want)
			}
			return h.DeleteRegistryValue(ctx, key, g.Name)
		},
	}, err
}

// undoRegistryKey removes a key that nodejoin made, once it holds nothing.
func undoRegistryKey(key string, _ Owned) (undo, error) {
	return undo{
		look: func(ctx context.Context, r host.Reader, _ *Env) (Change, string, error) {
			keys, values, err := r.RegistryNames(ctx, key)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return Change{}, "", nil
			case err != nil || len(keys)+len(values) > 0:
				return Change{}, "", err // somebody else uses it
			}
			return Change{Action: ActionDelete}, "", nil
		},
		do: func(ctx context.Context, h host.Host, _ *Env) error { return h.DeleteRegistryKey(ctx, key) },
	}, nil
}

// undoEnv: the key is the variable, on Linux its file, a colon and the variable,
// whose name Detail holds. The earlier state is the value, on Linux whole lines.
func undoEnv(rest string, o Owned) (undo, error) {
	want, err := previous[string](o)
	m := &MachineEnv{Name: o.Detail}
	if file, ok := strings.CutSuffix(rest, ":"+o.Detail); ok {
		m.File = file
	}
	lines := func(ctx context.Context, r host.Reader, e *Env) (have string, f *host.File, err error) {
		_, f, err = m.read(ctx, r, e.Facts.OS)
		if f != nil {
			have = envLines(string(f.Content), m.Name)
		}
		return have, f, err
	}
	return undo{
		look: func(ctx context.Context, r host.Reader, e *Env) (Change, string, error) {
			differs := false
			if m.File != "" {
				have, _, err := lines(ctx, r, e)
				if err != nil {
					return Change{}, "", err
				}
				differs = have != want
			} else {
				have, _, err := m.read(ctx, r, e.Facts.OS)
				if err != nil {
					return Change{}, "", err
				}
				differs = o.Existed != (len(have) > 0) || o.Existed && have[0] != want
			}
			switch {
			case !differs:
				return Change{}, "", nil
			case o.Existed:
				return restored(), "", nil
			}
			return Change{Action: ActionDelete}, "", nil
		},
		do: func(ctx context.Context, h host.Host, e *Env) error {
			switch {
			case m.File != "":
				_, f, err := lines(ctx, h, e)
				if err != nil {
					return err
				}
				if f == nil {
					f = &host.File{}
				}
				return h.WriteFile(ctx, m.File, strings.NewReader(replaceEnvLines(string(f.Content), m.Name, want)), host.WriteOptions{Access: f.Access})
			case o.Existed:
				return h.SetMachineEnv(ctx, m.Name, want)
			}
			return h.UnsetMachineEnv(ctx, m.Name)
		},
	}, err
}

// undoEnvFile removes a file of variables that nodejoin made, once it holds nothing.
func undoEnvFile(path string, _ Owned) (undo, error) {
	return undo{
		look: func(ctx context.Context, r host.Reader, _ *Env) (Change, string, error) {
			f, err := host.ReadFile(ctx, r, path, host.MaxText)
			switch {
			case err != nil || f == nil:
				return Change{}, "", err
			case len(f.Content) > 0:
				return Change{}, "it holds other variables", nil
			}
			return Change{Action: ActionDelete}, "", nil
		},
		do: func(ctx context.Context, h host.Host, _ *Env) error { return h.Remove(ctx, path) },
	}, nil
}

// undoSourceVIP removes the reservations of the holder that Detail names. The note of
// the address given last goes with the last reservation, if the store was nodejoin's.
func undoSourceVIP(store string, o Owned) (undo, error) {
	container, ifname, _ := strings.Cut(o.Detail, storeLineBreak)
	v := &SourceVIP{Container: container, Interface: ifname}
	held := func(ctx context.Context, r host.Reader, e *Env) (paths []string, err error) {
		v.Dir, v.Network = host.Dir(e.Facts.OS, store), host.Base(e.Facts.OS, store)
		s, err := v.observe(ctx, r, e)
		others := 0
		for a, mine := range s.held {
			if mine {
				paths = append(paths, v.path(e, a))
			} else {
				others++
			}
		}
		if last := host.Join(e.Facts.OS, store, lastReserved); err == nil && others == 0 && e.Record.owned("directory:"+store) {
			if _, err := r.Stat(ctx, last); err == nil {
				paths = append(paths, last)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		return paths, err
	}
	return undo{
		look: func(ctx context.Context, r host.Reader, e *Env) (Change, string, error) {
			paths, err := held(ctx, r, e)
			if err != nil || len(paths) == 0 {
				return Change{}, "", err
			}
			return Change{Action: ActionDelete}, "", nil
		},
		do: func(ctx context.Context, h host.Host, e *Env) error {
			paths, err := held(ctx, h, e)
			for _, p := range paths {
				if err == nil {
					err = h.Remove(ctx, p)
				}
			}
			return err
		},
	}, nil
}
