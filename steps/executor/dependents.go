package executor

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"nodejoin/steps/record"
)

// dependents names the services that depend on one directly or not and run, and the stopped ones of nodejoin that
// depend on it directly: a service is not unregistered while another one that is registered depends on it.
func (x *Executor) dependents(ctx context.Context, name string) ([]string, error) {
	names, err := x.host.Dependents(ctx, name)
	if err != nil {
		return nil, err
	}
	is := func(name string) func(string) bool {
		return func(other string) bool { return x.same(record.Service.Of(name), record.Service.Of(other)) }
	}
	for _, key := range x.record.Active() {
		if key.Prefix != record.Service || slices.ContainsFunc(names, is(key.Name)) {
			continue
		}
		svc, err := x.host.Service(ctx, key.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case slices.ContainsFunc(svc.DependsOn, is(name)):
			names = append(names, key.Name)
		}
	}
	return names, nil
}

// free reports whether no service that stays depends on this one: a step has to change that first.
func (m *removal) free(ctx context.Context, key record.Key) (bool, error) {
	if key.Prefix != record.Service {
		return true, nil
	}
	staying, err := m.staying(ctx, key)
	return len(staying) == 0, err
}

// staying are the services that depend on one, running or not, and do not go with it.
func (m *removal) staying(ctx context.Context, key record.Key) ([]string, error) {
	dependents, err := m.x.dependents(ctx, key.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(dependents, func(name string) bool {
		for other := range m.removes {
			if m.x.same(other, record.Service.Of(name)) {
				return true
			}
		}
		return false
	}), err
}

// needs names a service that depends on this one, stays and is of no step, so that nothing changes that; "" = none.
func (m *removal) needs(ctx context.Context, key record.Key) (string, error) {
	if key.Prefix != record.Service {
		return "", nil
	}
	staying, err := m.staying(ctx, key)
	for _, name := range staying {
		if !slices.ContainsFunc(m.made, func(made record.Key) bool { return m.x.same(made, record.Service.Of(name)) }) {
			return name, err
		}
	}
	return "", err
}
