package host

import (
	"context"
	"errors"
	"io/fs"
)

// FeaturesWait are the reasons for which Windows wants a reboot while features are to be turned on, which it
// may refuse until then (ERROR_FAIL_REBOOT_REQUIRED). Where one of them waits for a reboot itself, it is the same
// reboot, and Windows has accepted the feature.
func FeaturesWait(ctx context.Context, r Reader, names []string) ([]string, error) {
	off := false
	for _, name := range names {
		state, err := r.Feature(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the step of the feature reports it
		case err != nil || state == FeatureOnPending:
			return nil, err
		default:
			off = off || !state.Enabled()
		}
	}
	if !off {
		return nil, nil
	}
	return ServicingWaits(ctx, r)
}

// ServicingWaits are the reasons for a reboot in the two places where Windows' servicing and Windows Update note
// them. Machines without a registry answer ErrUnsupported.
func ServicingWaits(ctx context.Context, r RegistryReader) (out []string, err error) {
	const current = `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\`
	for _, k := range []struct{ key, what string }{
		{current + `Component Based Servicing\RebootPending`, "features or updates of Windows"},
		{current + `WindowsUpdate\Auto Update\RebootRequired`, "Windows Update"},
	} {
		_, _, err := r.RegistryNames(ctx, k.key)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			out = append(out, k.what)
		}
	}
	return out, nil
}
