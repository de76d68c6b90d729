package kinds_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

func TestConverge(t *testing.T) {
	all, art := scenarios(t)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			h := s.open(t, art)
			stepstest.Applied(t, h, art, s.list)
			stepstest.Settled(t, h, art, s.list)
			if s.verify != nil {
				s.verify(t, h)
			}
		})
	}
}

var errKilled = errors.New("killed")

// A run that ends before any of its mutating calls is completed by the next one.
func TestInterrupted(t *testing.T) {
	all, art := scenarios(t)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			for n := 0; ; n++ {
				h := s.open(t, art)
				calls := 0
				killed := ""
				r := stepstest.Apply(t, host.Intercept(h, func(op, subject string) error {
					if calls++; calls > n {
						if killed == "" {
							killed = op + " " + subject
						}
						return fmt.Errorf("%w before: %s %s", errKilled, op, subject)
					}
					return nil
				}), art, s.list)
				if killed == "" {
					if r.Err != nil {
						t.Fatal(r.Err)
					}
					return
				}
				if again := stepstest.Apply(t, h, art, s.list); again.Err != nil {
					t.Fatalf("after a run killed at call %d, %s: step %s: %v", n+1, killed, again.Failed, again.Err)
				}
				if third := stepstest.Apply(t, h, art, s.list); third.Err != nil || len(third.Changed) > 0 ||
					third.Mutations != 0 {
					t.Fatalf("killed at call %d, %s: the third run changed %v with %d mutating calls, %v", n+1, killed,
						third.Changed, third.Mutations, third.Err)
				}
				if s.verify != nil {
					s.verify(t, h)
				}
			}
		})
	}
}

// A check never makes a mutating call.
func TestCheckOnlyReads(t *testing.T) {
	all, art := scenarios(t)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			h := s.open(t, art)
			reply, err := executor.NewExecutor(kinds.Catalog(), h, art, func(event.Event) {}).Check(t.Context(),
				executor.Request{Node: "win-1", Steps: s.list})
			stepstest.Must(t, err)
			if reply.Mutations != 0 {
				t.Errorf("%d mutating calls", reply.Mutations)
			}
			for _, r := range reply.Results {
				if r.Err != nil {
					t.Errorf("%s: %v", r.ID, r.Err)
				}
			}
		})
	}
}

func TestCatalog(t *testing.T) {
	kinds := kinds.Catalog()
	if !slices.IsSortedFunc(kinds, func(a, b steps.Kind) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the catalog is not sorted by name")
	}
	for _, k := range kinds {
		v := k.New()
		_, onHost := v.(steps.HostStep)
		_, onCluster := v.(steps.ClusterStep)
		if onHost != (k.Place == steps.OnHost) || onCluster != (k.Place == steps.OnCluster) {
			t.Errorf("%s: place is %q, but its argument struct is host step %v, cluster step %v", k.Name, k.Place,
				onHost, onCluster)
		}
		if k.Doc == "" {
			t.Errorf("%s has no doc", k.Name)
		}
	}
}

// Every kind that changes a machine has a scenario: it runs fresh, drifted and interrupted.
func TestEveryKindHasAScenario(t *testing.T) {
	all, _ := scenarios(t)
	for _, k := range kinds.Catalog() {
		ran := slices.ContainsFunc(all, func(s scenario) bool {
			return slices.ContainsFunc(s.list, func(spec steps.Spec) bool { return spec.Kind == k.Name })
		})
		if k.Place == steps.OnHost && !ran && !k.Waits && !k.Finds {
			t.Errorf("no scenario has a step of kind %s", k.Name)
		}
		if k.Gate != nil && !k.Waits {
			t.Errorf("%s is a gate and does not wait", k.Name)
		}
	}
}
