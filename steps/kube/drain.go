package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/wait"
)

// DrainOptions limit a drain. The rules are those of kubectl drain (k8s.io/kubectl pkg/drain/filters.go),
// under the same names.
type DrainOptions struct {
	// DeleteEmptyDirData allows the eviction of pods that lose emptyDir volumes.
	DeleteEmptyDirData bool
	// Force allows the eviction of pods that no controller recreates.
	Force bool
	// Timeout bounds the whole drain; 0 = DrainTimeout.
	Timeout time.Duration
	// Progress is called with what is still waited for whenever that changes; may be nil.
	Progress func(DrainState)
}

// DrainTimeout is the default bound of a drain.
const DrainTimeout = 10 * time.Minute

// drainPoll is the interval at which a drain lists the pods of a node.
const drainPoll = time.Second

// DrainState is the progress of a drain.
type DrainState struct {
	Leaving []Pod // evicted, but still listed
	// Refused are pods that a disruption budget protects for now.
	Refused []Pod
}

// DrainPlan returns what a drain of these pods would do: which are evicted, which stay (those of DaemonSets,
// and static ones), and which block it, with the reason.
func DrainPlan(pods []Pod, o DrainOptions) (evict, stay []Pod, blocked []Blocked) {
	for _, p := range pods {
		switch {
		case p.Mirror || p.Controller == "DaemonSet" && !p.Finished:
			stay = append(stay, p)
		case p.Finished:
			evict = append(evict, p)
		case p.Controller == "" && !o.Force:
			blocked = append(blocked, Blocked{p, "no controller would recreate it"})
		case p.EmptyDir && !o.DeleteEmptyDirData:
			blocked = append(blocked, Blocked{p, "the data of its emptyDir volume would be lost"})
		default:
			evict = append(evict, p)
		}
	}
	return evict, stay, blocked
}

// Blocked is a pod that a drain must not evict.
type Blocked struct {
	Pod
	Why string
}

// BlockedError says that pods block a drain; nothing was evicted.
type BlockedError struct{ Pods []Blocked }

func (e *BlockedError) Error() string {
	var list []string
	for _, b := range e.Pods {
		list = append(list, b.String()+" ("+b.Why+")")
	}
	return "pods block the drain: " + strings.Join(list, ", ")
}

// DrainTimeoutError says that the timeout of a drain passed before all pods were gone.
type DrainTimeoutError struct {
	Timeout time.Duration
	DrainState
}

func (e *DrainTimeoutError) Error() string {
	s := fmt.Sprintf("the drain took longer than %s", e.Timeout)
	if len(e.Refused) > 0 {
		s += "; protected by a disruption budget: " + names(e.Refused)
	}
	if len(e.Leaving) > 0 {
		s += "; evicted but not gone yet: " + names(e.Leaving)
	}
	return s
}

func names(pods []Pod) string {
	var list []string
	for _, p := range pods {
		list = append(list, p.String())
	}
	return strings.Join(list, ", ")
}

// Drain evicts the pods of a node and waits until they are gone. The caller cordons the node first. An
// interrupted drain is finished by calling it again; it then also waits for pods that are already
// terminating.
//
// Errors: *BlockedError, *DrainTimeoutError, those of the API. If the API server does not answer for a moment
// the call is retried, as evictions may move the very pods that it runs on.
func Drain(ctx context.Context, a API, node string, o DrainOptions) error {
	bound := o.Timeout
	if bound <= 0 {
		bound = DrainTimeout
	}
	limit := time.Now().Add(bound)
	calls, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	var last DrainState
	reported, answered := "", false
	for {
		state, err := drainOnce(calls, a, node, o)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && calls.Err() != nil:
			return &DrainTimeoutError{bound, last}
		case errors.Is(err, ErrUnreachable) && answered:
		case err != nil:
			return err
		default:
			answered, last = true, state
			if len(state.Leaving)+len(state.Refused) == 0 {
				return nil
			}
			if text := names(state.Leaving) + ";" + names(state.Refused); o.Progress != nil && text != reported {
				o.Progress(state)
				reported = text
			}
		}
		if !time.Now().Before(limit) {
			return &DrainTimeoutError{bound, last}
		}
		if err := wait.Pause(ctx, min(drainPoll, time.Until(limit))); err != nil {
			return err
		}
	}
}

// drainOnce lists the pods once and requests the evictions that are still missing.
func drainOnce(ctx context.Context, a API, node string, o DrainOptions) (DrainState, error) {
	pods, err := a.Pods(ctx, node)
	if err != nil {
		return DrainState{}, err
	}
	// A terminating pod does not block a drain.
	ending := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool {
		return !p.Ending || p.Mirror || p.Controller == "DaemonSet"
	})
	evict, _, blocked := DrainPlan(slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Ending }), o)
	if len(blocked) > 0 {
		return DrainState{}, &BlockedError{blocked}
	}
	state := DrainState{Leaving: ending}
	for _, p := range evict {
		switch err := a.Evict(ctx, p); {
		case errors.Is(err, ErrBudget):
			state.Refused = append(state.Refused, p)
		case err != nil:
			return state, err
		default:
			state.Leaving = append(state.Leaving, p)
		}
	}
	return state, nil
}
