package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// netnsDir is where network namespaces have names (ip-netns(8)).
const netnsDir = "/run/netns"

// claimKernel are the claims of what the service's program makes in the kernel of Linux.
// What is there already, by an exact name or one that begins so, is not its own.
func (s *Service) claimKernel(ctx context.Context, r host.Reader, e *steps.Env) ([]record.New, error) {
	var out []record.New
	add := func(key record.Key, names []string, err error) error {
		c := record.New{Key: key}
		if len(names) > 0 {
			c.Previous = names
		}
		out = append(out, c)
		return err
	}
	for _, name := range s.Interfaces {
		names, err := interfaces(ctx, r, name)
		if err := add(record.Interface.Of(name), names, err); err != nil {
			return nil, err
		}
	}
	for _, prefix := range s.Chains {
		chains, err := chainsWith(ctx, r, prefix, nil)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // without iptables there is none
		}
		if err := add(record.Chains.Of(prefix), names(chains), err); err != nil {
			return nil, err
		}
	}
	for _, name := range s.FilterTables {
		tables, err := tablesNamed(ctx, r, name, nil)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // without nft there is none
		}
		if err := add(record.FilterTable.Of(name), names(tables), err); err != nil {
			return nil, err
		}
	}
	for _, network := range s.Routes {
		routes, err := routesInto(ctx, r, network, nil)
		if err := add(record.Routes.Of(network), names(routes), err); err != nil {
			return nil, err
		}
	}
	for _, prefix := range s.NetworkNamespaces {
		parents, err := e.Parents(ctx, r, netnsDir+"/"+prefix)
		if err != nil {
			return nil, err
		}
		out = append(out, parents...)
		names, err := namespacesWith(ctx, r, prefix, nil)
		if err := add(record.Namespaces.Of(prefix), names, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// interfaces is the interface with this name, if there is one.
func interfaces(ctx context.Context, r host.KernelReader, name string) ([]string, error) {
	all, err := r.Interfaces(ctx)
	if !slices.Contains(all, name) || err != nil {
		return nil, err
	}
	return []string{name}, nil
}

// chainsWith are chains whose name begins so, without those named in but.
func chainsWith(ctx context.Context, r host.KernelReader, prefix string, but []string) ([]host.FilterChain, error) {
	all, err := r.FilterChains(ctx)
	return slices.DeleteFunc(all, func(c host.FilterChain) bool {
		return !strings.HasPrefix(c.Name, prefix) || slices.Contains(but, c.String())
	}), err
}

// tablesNamed are the tables of nftables with this name, of all families, without those
// named in but.
func tablesNamed(ctx context.Context, r host.KernelReader, name string, but []string) ([]host.FilterTable, error) {
	all, err := r.FilterTables(ctx)
	return slices.DeleteFunc(all, func(t host.FilterTable) bool {
		return t.Name != name ||
			slices.Contains(but, t.String())
	}), err
}

// routesInto are the routes over other machines into parts of a network, without those in
// but.
func routesInto(ctx context.Context, r host.NetworkReader, network string, but []string) ([]host.Route, error) {
	whole, err := netip.ParsePrefix(network)
	if err != nil {
		return nil, steps.Invalid("%q is not a network", network)
	}
	all, err := r.Routes(ctx)
	return slices.DeleteFunc(all, func(r host.Route) bool {
		to, err := netip.ParsePrefix(r.Destination)
		part := err == nil && to.Bits() > whole.Bits() && whole.Contains(to.Addr())
		return !part || r.Gateway == "" || slices.Contains(but, r.String())
	}), err
}

// namespacesWith are network namespaces whose name begins so, without those in but.
func namespacesWith(ctx context.Context, r host.FilesReader, prefix string, but []string) ([]string, error) {
	list, err := r.List(ctx, netnsDir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var out []string
	for _, f := range list {
		if strings.HasPrefix(f.Name, prefix) && !slices.Contains(but, f.Name) {
			out = append(out, f.Name)
		}
	}
	return out, err
}

// undoInterface removes an interface that a program of ours has made.
func undoInterface(key record.Key, claim record.Claim) (steps.Undoing, error) {
	name := key.Name
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := interfaces(ctx, r, name)
			switch {
			case err != nil || len(have) == 0:
				return steps.Change{}, "", err
			case claim.Existed:
				return steps.Change{}, "it was there before nodejoin", nil
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error { return h.DeleteInterface(ctx, name) },
	}, nil
}

// undoChains removes chains of the packet filter that programs of ours have made.
func undoChains(key record.Key, claim record.Claim) (steps.Undoing, error) {
	prefix := key.Name
	before, err := record.Previous[[]string](claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := chainsWith(ctx, r, prefix, before)
			if errors.Is(err, fs.ErrNotExist) {
				return steps.Change{}, "iptables is no longer there, so its chains are not known", nil
			}
			return goneNames(before, names(have), err)
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			have, err := chainsWith(ctx, h, prefix, before)
			if err != nil {
				return err
			}
			return h.DeleteFilterChains(ctx, have)
		},
	}, err
}

// undoFilterTable removes tables of nftables that programs of ours have made.
func undoFilterTable(key record.Key, claim record.Claim) (steps.Undoing, error) {
	name := key.Name
	before, err := record.Previous[[]string](claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := tablesNamed(ctx, r, name, before)
			if errors.Is(err, fs.ErrNotExist) {
				return steps.Change{}, "nft is no longer there, so its tables are not known", nil
			}
			return goneNames(before, names(have), err)
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			have, err := tablesNamed(ctx, h, name, before)
			if err != nil {
				return err
			}
			return h.DeleteFilterTables(ctx, have)
		},
	}, err
}

// undoRoutes removes routes into a network of pods that programs of ours have made.
func undoRoutes(key record.Key, claim record.Claim) (steps.Undoing, error) {
	network := key.Name
	before, err := record.Previous[[]string](claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := routesInto(ctx, r, network, before)
			return goneNames(before, names(have), err)
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			have, err := routesInto(ctx, h, network, before)
			if err != nil {
				return err
			}
			return h.DeleteRoutes(ctx, have)
		},
	}, err
}

// undoNamespaces removes the names of network namespaces that programs of ours have made:
// without processes they are gone then.
func undoNamespaces(key record.Key, claim record.Claim) (steps.Undoing, error) {
	prefix := key.Name
	before, err := record.Previous[[]string](claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			have, err := namespacesWith(ctx, r, prefix, before)
			return goneNames(before, have, err)
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			have, err := namespacesWith(ctx, h, prefix, before)
			for _, name := range have {
				path := netnsDir + "/" + name
				if err == nil {
					err = steps.InUse(h.Unmount(ctx, path))
				}
				if err == nil {
					err = h.Remove(ctx, path)
				}
			}
			return err
		},
	}, err
}

// goneNames is the Change that removes what is ours; what was there before stays.
func goneNames(before, ours []string, err error) (steps.Change, string, error) {
	left := ""
	if len(before) > 0 {
		left = "it was there before nodejoin: " + steps.Some(before)
	}
	if err != nil || len(ours) == 0 {
		return steps.Change{}, left, err
	}
	return steps.Change{Action: steps.ActionDelete, Reason: fmt.Sprintf("%d: %s", len(ours), steps.Some(ours))}, left, nil
}

// removesNamespaces is Undo.Removes of network namespaces whose names begin with prefix.
func removesNamespaces(_ *steps.Env, prefix, path string) steps.Removal {
	if strings.HasPrefix(path, netnsDir+"/"+prefix) {
		return steps.RemovesTree
	}
	return steps.RemovesNothing
}
