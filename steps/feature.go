package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// Turning on a feature with its files at hand takes minutes; fetching them longer.
var featureKind = Kind{Name: "feature", Place: OnHost, Timeout: 30 * time.Minute, Doc: "an optional feature of Windows that is on, or is after the next reboot",
	Undo: map[record.Prefix]Undo{record.Feature: {New: undoFeature, Snapshot: SnapshotNone}},
	New:  func() any { return &Feature{} }}

// Feature is an optional feature that is on. Whether it works already, or after a
// reboot only, is for the step reboot.
type Feature struct {
	Name string `json:"name" doc:"as Windows names it: Containers, Microsoft-Hyper-V" id:"true"`
}

func (f *Feature) Check(ctx context.Context, r host.Reader, _ *Env) (Change, error) {
	state, err := f.state(ctx, r)
	if err != nil || state.Enabled() {
		return Change{}, err
	}
	return Change{Action: ActionUpdate, Diffs: []Diff{{Name: "state", Have: string(state), Want: string(host.FeatureOn)}},
		Touches: []Touch{{Reboot: featureReason(f.Name)}}}, nil
}

// featureReason is what of a feature takes effect at the next boot.
func featureReason(name string) string { return "the feature " + name }

func (f *Feature) state(ctx context.Context, r host.Reader) (host.FeatureState, error) {
	state, err := r.Feature(ctx, f.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &Error{Code: CodeInvalid, Summary: "unknown feature", Detail: fmt.Sprintf("this Windows has no feature %q", f.Name),
			Remedy: "look at the names that Windows gives (dism /online /get-features)"}
	}
	return state, err
}

func (f *Feature) Apply(ctx context.Context, h host.Host, e *Env, _ Change) (Outcome, error) {
	if err := e.Claim(ctx, h, record.New{Key: record.Feature.Of(f.Name)}); err != nil {
		return Outcome{}, err
	}
	return Outcome{}, h.EnableFeature(ctx, f.Name)
}

// undoFeature turns a feature off that nodejoin has turned on. Its files stay, and what
// it was counts after the next reboot.
func undoFeature(key record.Key, _ record.Claim) (Undoing, error) {
	name := key.Name
	return Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *Env) (Change, string, error) {
			state, err := r.Feature(ctx, name)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, host.ErrUnsupported):
				return Change{}, "", nil
			case err != nil || !state.Enabled():
				return Change{}, "", err
			}
			return Change{Action: ActionUpdate, Diffs: []Diff{{Name: "state", Have: string(state), Want: string(host.FeatureOff)}}}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *Env) error { return h.DisableFeature(ctx, name) },
	}, nil
}
