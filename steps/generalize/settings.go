package generalize

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// written are the texts of something that nodejoin wrote into no file of its own: a value of the registry, a variable
// of the environment or the registration of a service.
func written(ctx context.Context, r host.Reader, e *steps.Env, key record.Key) ([]string, error) {
	switch {
	case key.Prefix == record.Registry:
		name := e.Record.Claims[key].Detail
		v, _, err := host.LookupRegistry(ctx, r, key.RegistryPath(name), name)
		return append(slices.Clone(v.Strings), v.String, string(v.Binary)), err
	case key.Prefix == record.Env && e.Facts.OS == "windows":
		v, err := host.LookupEnv(ctx, r, key.Name)
		return []string{v}, err
	case key.Prefix == record.Service:
		c, err := r.Service(ctx, key.Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return slices.Concat(c.Command, c.Environment, []string{c.DisplayName, c.Description}), err
	}
	return nil, nil
}
