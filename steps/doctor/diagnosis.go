package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// ClusterView is what the controller read about one node in the cluster. A Why says why its part could not
// be read; then it is not known whether there is such a part.
type ClusterView struct {
	Node    *kube.Node `json:"node,omitempty"` // nil: there is none, or NodeWhy
	NodeWhy string     `json:"node_why,omitempty"`
	Pods    []kube.Pod `json:"pods,omitempty"` // of the node
	PodsWhy string     `json:"pods_why,omitempty"`
	// DaemonSets want a pod on the node; read only if there is a Node and its pods could be read.
	DaemonSets    []kube.DaemonSet `json:"daemon_sets,omitempty"`
	DaemonSetsWhy string           `json:"daemon_sets_why,omitempty"`
	Services      []kube.Service   `json:"services,omitempty"` // of the whole cluster
	// ServicesWhy, as the others.
	ServicesWhy string    `json:"services_why,omitempty"`
	Clock       time.Time `json:"clock"` // of the controller, when it asked
}

// symptom is a row of the table.
type symptom struct {
	id       string
	severity steps.Severity
	os       string // checked on this OS only; "" = on all
	why      string
	look     func(ctx context.Context, x *diagnosis) ([]finding, error)
}

// observed is what was found, and what to do about it.
type observed struct{ what, remedy string }

// finding is what a row of the table has found, with what fixes it.
type finding struct {
	observed
	fix, restart []string
}

// diagnosis is one pass over the table.
type diagnosis struct {
	r host.Reader
	e *steps.Env
	c ClusterView
	// podCIDR are references to the Node's pod CIDR.
	podCIDR []string
	// steps of the node, with the known references filled in.
	steps []plannedStep
}

type plannedStep struct {
	id   string
	kind steps.Kind
	args any
	refs []string // to facts and outputs of other steps
}

// of returns the steps of a kind with their ids, in the plan's order.
func of[T any](x *diagnosis) (ids []string, list []T) {
	for _, s := range x.steps {
		if v, ok := s.args.(T); ok {
			ids, list = append(ids, s.id), append(list, v)
		}
	}
	return ids, list
}

// using are the steps that take one of these references, those that take outputs of them,
// and services that are started from files among them; in the plan's order.
func (x *diagnosis) using(values []string) (ids []string) {
	var files []string
	for _, s := range x.steps { // a step comes after those whose outputs it takes
		takes := slices.ContainsFunc(s.refs, func(r string) bool {
			step, _, _ := strings.Cut(r, ".")
			return slices.Contains(values, r) || slices.Contains(ids, step)
		})
		if v, ok := s.args.(*kinds.Service); ok && len(v.Command) > 0 {
			takes = takes || slices.ContainsFunc(v.Watched(), func(p string) bool {
				return slices.Contains(files, host.PathKey(x.e.Facts.OS, p))
			})
		}
		if !takes {
			continue
		}
		ids = append(ids, s.id)
		if f, ok := s.args.(*kinds.File); ok {
			files = append(files, host.PathKey(x.e.Facts.OS, f.Path))
		}
	}
	return ids
}

// service finds the step of a service that should run.
func (x *diagnosis) service(name string) (s *kinds.Service, id string, ok bool) {
	ids, list := of[*kinds.Service](x)
	for i, s := range list {
		if s.Name == name && s.Running() {
			return s, ids[i], true
		}
	}
	return nil, "", false
}

// file finds the step that writes a file.
func (x *diagnosis) file(path string) (f *kinds.File, id string, ok bool) {
	ids, list := of[*kinds.File](x)
	for i, f := range list {
		if host.PathKey(x.e.Facts.OS, f.Path) == host.PathKey(x.e.Facts.OS, path) {
			return f, ids[i], true
		}
	}
	return nil, "", false
}

// read returns a file of the machine; there is false if it is absent.
func (x *diagnosis) read(ctx context.Context, path string) (b []byte, there bool, err error) {
	f, err := host.ReadFile(ctx, x.r, path, host.MaxText)
	if err != nil || f == nil {
		return nil, false, err
	}
	if f.Truncated {
		return nil, true, fmt.Errorf("%s is larger than %s", path, host.FormatSize(host.MaxText))
	}
	return f.Content, true, nil
}

// registered returns a service of the machine; there is false if it is absent.
func (x *diagnosis) registered(ctx context.Context, name string) (svc host.Service, there bool, err error) {
	svc, err = x.r.Service(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return svc, false, nil
	}
	return svc, err == nil, err
}

// asked is the error of a part of the cluster that could not be read, nil if it was read.
func asked(why string) error {
	if why == "" {
		return nil
	}
	return errors.New(why)
}

// jsonOf decodes any JSON.
func jsonOf(b []byte) (any, error) {
	var v any
	err := json.Unmarshal(b, &v)
	return v, err
}
