package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// featurePrefix is that of the claims.
const featurePrefix record.Prefix = "feature"

// Turning on a feature with its files at hand takes minutes; fetching them longer.
var featureKind = steps.Kind{Name: "feature", Place: steps.OnHost, Image: true,
	AfterBoot: true, Timeout: 30 * time.Minute,
	Doc: "an optional feature of Windows that is on, or is after the next reboot",
	Undo: map[record.Prefix]steps.Undo{featurePrefix: {Called: "Windows feature", New: undoFeature,
		Snapshot: steps.SnapshotNone,
		Stays:    "Windows turns a feature off with a reboot; it goes when the machine leaves"}},
	New:    func() any { return &Feature{} },
	Claims: steps.Claims((*Feature).claims)}

// Feature is an optional feature that is on. Whether it works already, or after a
// reboot only, is for the step reboot.
type Feature struct {
	Name string `json:"name" doc:"as Windows names it: Containers, Microsoft-Hyper-V" id:"true"`
}

func (f *Feature) claims(*steps.Env) []record.Key { return []record.Key{featurePrefix.Of(f.Name)} }

func (f *Feature) Check(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, error) {
	state, err := f.state(ctx, r)
	if err != nil || state.Enabled() {
		return steps.Change{}, err
	}
	return steps.Change{Action: steps.ActionUpdate,
		Diffs:   []steps.Diff{{Name: "state", Have: string(state), Want: string(host.FeatureOn)}},
		Touches: []steps.Touch{{Reboot: featureReason(f.Name)}}}, nil
}

// featureReason is what of a feature takes effect at the next boot.
func featureReason(name string) string { return "the feature " + name }

func (f *Feature) state(ctx context.Context, r host.SystemReader) (host.FeatureState, error) {
	state, err := r.Feature(ctx, f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &steps.Error{Code: steps.CodeInvalid, Summary: "unknown feature",
			Detail: fmt.Sprintf("this Windows has no feature %q", f.Name),
			Remedy: "look at the names that Windows gives (dism /online /get-features)"}
	}
	return state, err
}

func (f *Feature) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	if err := e.Claim(ctx, h, record.New{Key: featurePrefix.Of(f.Name)}); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, h.EnableFeature(ctx, f.Name)
}

// undoFeature turns a feature off that nodejoin has turned on. Its files stay, and what
// it was counts after the next reboot.
func undoFeature(key record.Key, _ record.Claim) (steps.Undoing, error) {
	name := key.Name
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			state, err := r.Feature(ctx, name)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, host.ErrUnsupported):
				return steps.Change{}, "", nil
			case err != nil || !state.Enabled():
				return steps.Change{}, "", err
			}
			return steps.Change{Action: steps.ActionUpdate,
				Diffs: []steps.Diff{{Name: "state", Have: string(state), Want: string(host.FeatureOff)}}}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error { return h.DisableFeature(ctx, name) },
	}, nil
}
