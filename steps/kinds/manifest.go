package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

var manifestKind = steps.Kind{Name: "manifest", Place: steps.OnCluster, Shared: true,
	Doc: "objects of the cluster, by server-side apply of the given fields; other fields stay, and the objects stay " +
		"when the node leaves; those that the plan no longer has are deleted (by their label " + kube.PartOf + ")",
	Args: map[string]string{
		"existing": "the objects are somebody else's: only the given fields are set, and missing objects are not created",
		"force": "take over fields that another manager has set differently, and objects of another ApplySet; without it " +
			"that is an error",
	},
	New:     func() any { return &Manifest{} },
	Objects: func(step any) ([]kube.Manifest, error) { return step.(*Manifest).Objects() },
	Render: steps.Renders(func(m *Manifest, _ steps.RenderFor) (steps.Rendering, error) {
		r := steps.Rendering{Manifest: m.Content}
		m.Content = ""
		return r, nil
	})}

// Manifest keeps objects of the cluster, in the order in which they are written. They
// are the whole cluster's: several nodes may have the same step, and none removes them.
type Manifest struct {
	Content string `json:"content" doc:"the objects: documents of YAML, or JSON; no Secrets"`
	// Existing: see kube.Manifest.
	Existing bool `json:"existing,omitempty"`
	Force    bool `json:"force,omitempty"`
}

// Objects reads the content. An error is of CodeInvalid.
func (m *Manifest) Objects() ([]kube.Manifest, error) {
	list, err := kube.ParseManifests(m.Content)
	if err == nil && len(list) == 0 {
		err = errors.New("it contains no object")
	}
	if err != nil {
		return nil, &steps.Error{Code: steps.CodeInvalid, Summary: "wrong manifest", Detail: err.Error()}
	}
	for i := range list {
		list[i].Existing, list[i].Force = m.Existing, m.Force
	}
	return list, nil
}

// members are the objects as members of the plan's set. Those of somebody else are in none; those that are kept
// are in none of ours, so that nothing finds them once the plan no longer has them.
func (m *Manifest) members(ctx context.Context, r kube.Reader, e *steps.Env) ([]kube.Manifest, error) {
	list, err := m.Objects()
	if err != nil || e.Plan == "" || m.Existing {
		return list, err
	}
	ours := kube.ApplySet{Plan: e.Plan}.ID()
	for i, o := range list {
		set := ours
		if e.Keep {
			state, err := r.Manifest(ctx, o)
			if err != nil {
				continue // the caller finds the same
			}
			if set = state.Set; set == ours {
				set = ""
			}
		}
		list[i] = o.In(set)
	}
	return list, nil
}

// foreignSet is the error for an object of another set; nil if it may be changed.
func (m *Manifest) foreignSet(o kube.Manifest, state kube.ManifestState, e *steps.Env) error {
	if e.Plan == "" || e.Keep || m.Existing || m.Force || state.Set == "" || state.Set == kube.SetOf(o.Object) ||
		slices.ContainsFunc(e.Former, func(p string) bool { return kube.ApplySet{Plan: p}.ID() == state.Set }) {
		return nil
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: "object of another plan or tool",
		Detail: fmt.Sprintf("%s is a member of another ApplySet (label %s: %s), which deletes it once it no longer has it",
			o, kube.PartOf, state.Set),
		Remedy: "remove it from one of the two; keep = true shares it, and force = true takes it over"}
}

func (m *Manifest) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	if steps.HasRef(m.Content) {
		return steps.Change{Action: steps.ActionUnknown, Reason: "its content is not known yet"}, nil
	}
	list, err := m.members(ctx, r, e)
	if err != nil {
		return steps.Change{}, err
	}
	var c steps.Change
	var missing, waits []string
	for _, o := range list {
		state, err := r.Manifest(ctx, o)
		kind := steps.Touch{Object: kube.ObjectKind{APIVersion: o.APIVersion, Kind: o.Kind}}
		if _, pending := e.Pending[kind]; errors.Is(err, kube.ErrNotServed) &&
			(pending || slices.Contains(c.Touches, kind)) {
			err = nil // its definition comes before it
		}
		if err != nil {
			return steps.Change{}, manifestError(o, err)
		}
		if err := m.foreignSet(o, state, e); err != nil {
			return steps.Change{}, err
		}
		for _, k := range o.Defines() {
			c.Touches = append(c.Touches, steps.Touch{Object: k})
		}
		if state.Waits != "" {
			waits = append(waits, o.String()+": "+state.Waits)
		}
		switch {
		case !state.Exists && m.Existing:
		case !state.Exists:
			missing = append(missing, o.String())
		}
		for _, d := range state.Differs {
			c.Diffs = append(c.Diffs, steps.Diff{Name: o.String() + " " + d.Path, Have: d.Have, Want: d.Want,
				Text: strings.Contains(d.Have+d.Want, "\n")})
		}
	}
	switch {
	case len(missing) > 0 && len(missing) == len(list):
		c.Action = steps.ActionCreate
	case len(missing) > 0 || len(c.Diffs) > 0:
		c.Action = steps.ActionUpdate
	case len(waits) > 0:
		c.Action, c.Reason = steps.ActionWait, strings.Join(waits, "; ")
	default:
		return steps.Change{}, nil
	}
	if len(missing) > 0 {
		c.Reason = "missing: " + strings.Join(missing, "; ")
	}
	return c, nil
}

// definedFor bounds the wait until a kind can be used whose definition was applied. The
// API server takes about a second.
const definedFor = time.Minute

func (m *Manifest) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	list, err := m.members(ctx, a, e)
	if err != nil {
		return steps.Outcome{}, err
	}
	for _, o := range list {
		if err := a.ApplyManifest(ctx, o); err != nil {
			return steps.Outcome{}, manifestError(o, err)
		}
		if len(o.Defines()) > 0 {
			if err := awaitDefined(ctx, a, e, o); err != nil {
				return steps.Outcome{}, err
			}
		}
	}
	return steps.Outcome{}, nil
}

// awaitDefined waits until the kinds can be used that o defines.
func awaitDefined(ctx context.Context, r kube.Reader, e *steps.Env, o kube.Manifest) error {
	ctx, cancel := context.WithTimeout(ctx, definedFor)
	defer cancel()
	return await(ctx, e, "a kind of object is not served in time", func(ctx context.Context) (condition, error) {
		state, err := r.Manifest(ctx, o)
		if err != nil {
			return condition{}, err
		}
		return condition{reached: state.Waits == "", observed: o.String() + ": " + state.Waits,
			remedy: "look at it with `kubectl describe crd " + o.Name + "`"}, nil
	})
}

// manifestError says what can be done about the errors that only manifests have.
func manifestError(o kube.Manifest, err error) error {
	var owned *kube.OwnershipError
	switch {
	case errors.As(err, &owned):
		return &steps.Error{Code: steps.CodeFailed, Summary: "fields of another manager", Detail: owned.Error(),
			Remedy: "leave these fields out of the manifest, or give them its values; or take them over with force = true, " +
				"and see that the other manager no longer sets them"}
	case errors.Is(err, kube.ErrNotServed):
		return &steps.Error{Code: steps.CodeFailed, Summary: "unknown kind of object", Detail: fmt.Sprintf("%s: %v", o, err),
			Remedy: "write the apiVersion that the cluster's version has; where it is of a CustomResourceDefinition, that " +
				"comes first: in the same file, or in a step that this one names in after"}
	}
	return err
}
