package selftest

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"nodejoin/steps/host"
)

func (t *test) removeKey(ctx context.Context) error {
	_, values, err := t.host.RegistryNames(ctx, ownKey)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrUnsupported) {
		return nil
	}
	for _, v := range values {
		err = errors.Join(err, t.host.DeleteRegistryValue(ctx, ownKey, v))
	}
	return errors.Join(err, t.host.DeleteRegistryKey(ctx, ownKey))
}

// clean removes what the test makes, as far as it is there.
func (t *test) clean(ctx context.Context) error {
	errs := []error{t.host.StopService(ctx, ownName), t.host.DeleteService(ctx, ownName), t.forgetAuthority(ctx)}
	if t.facts.OS == "windows" {
		errs = append(errs, t.removeKey(ctx), t.host.UnsetMachineEnv(ctx, ownVar), t.host.DeleteFirewallRule(ctx, ownName),
			t.host.ReleasePorts(ctx, ownPorts))
		for _, name := range ownNetworks {
			errs = append(errs, t.host.DeleteHNSNetwork(ctx, name))
		}
	}
	list, err := t.host.List(ctx, t.dir)
	for _, f := range list {
		err = errors.Join(err, t.host.Remove(ctx, host.Join(t.facts.OS, t.dir, f.Name)))
	}
	errs = append(errs, err, t.host.Remove(ctx, t.dir))
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrUnsupported)
	})...)
}
