package kube_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps/kube"
)

// pods is the part of a cluster that a drain uses. Its first grace lists still show an
// evicted pod.
type pods struct {
	kube.API
	list    []kube.Pod
	refuse  map[string]int // name -> how often its budget refuses; -1 = forever
	grace   int            // how many lists still show an evicted pod
	evicted []string
	asked   int // Evict calls
	down    int // how many lists fail, from the second on
	looks   int
}

func (c *pods) Pods(ctx context.Context, node string) ([]kube.Pod, error) {
	if c.looks++; c.looks > 1 && c.down > 0 {
		c.down--
		return nil, kube.ErrUnreachable
	}
	if c.grace--; c.grace < 0 {
		c.list = slices.DeleteFunc(c.list, func(p kube.Pod) bool { return p.Ending })
	}
	return slices.Clone(c.list), ctx.Err()
}

func (c *pods) Evict(_ context.Context, p kube.Pod) error {
	c.asked++
	if n := c.refuse[p.Name]; n != 0 {
		c.refuse[p.Name]--
		return kube.ErrBudget
	}
	c.evicted = append(c.evicted, p.Name)
	for i := range c.list {
		if c.list[i].Name == p.Name {
			c.list[i].Ending = true
		}
	}
	return nil
}

func pod(name, controller string) kube.Pod {
	return kube.Pod{Namespace: "d", Name: name, UID: name, Controller: controller}
}

func TestDrain(t *testing.T) {
	static, daemon, data, done, ending := pod("static", ""), pod("daemon", "DaemonSet"), pod("data", "ReplicaSet"),
		pod("done", ""), pod("ending", "")
	static.Mirror, data.EmptyDir, done.Finished, ending.Ending = true, true, true, true
	web := pod("web", "ReplicaSet")
	for _, c := range []struct {
		name    string
		cluster *pods
		options kube.DrainOptions
		evicted []string
		blocked string
	}{
		{"nothing there", &pods{}, kube.DrainOptions{}, nil, ""},
		{"only what stays", &pods{list: []kube.Pod{static, daemon}}, kube.DrainOptions{}, nil, ""},
		{"workload", &pods{list: []kube.Pod{static, daemon, web, done}}, kube.DrainOptions{}, []string{"web", "done"}, ""},
		{"slow to end", &pods{list: []kube.Pod{web}, grace: 30}, kube.DrainOptions{}, []string{"web"}, ""},
		{"taken up again", &pods{list: []kube.Pod{ending}, grace: 3}, kube.DrainOptions{}, nil, ""},
		{"budget", &pods{list: []kube.Pod{web, done}, refuse: map[string]int{"web": 5}}, kube.DrainOptions{},
			[]string{"done", "web"}, ""},
		{"API server away for a while", &pods{list: []kube.Pod{web}, grace: 5, down: 4}, kube.DrainOptions{},
			[]string{"web"}, ""},
		{"data of a volume", &pods{list: []kube.Pod{web, data}}, kube.DrainOptions{Force: true}, nil,
			"d/data (the data of its emptyDir volume would be lost)"},
		{"data given up", &pods{list: []kube.Pod{data}}, kube.DrainOptions{DeleteEmptyDirData: true}, []string{"data"}, ""},
		{"nobody recreates it", &pods{list: []kube.Pod{web, pod("bare", "")}}, kube.DrainOptions{}, nil,
			"d/bare (no controller would recreate it)"},
		{"forced", &pods{list: []kube.Pod{pod("bare", "")}}, kube.DrainOptions{Force: true}, []string{"bare"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := kube.Drain(t.Context(), c.cluster, "n", c.options)
				var blocked *kube.BlockedError
				if c.blocked != "" {
					if !errors.As(err, &blocked) || !strings.HasSuffix(err.Error(), c.blocked) {
						t.Errorf("%v, want it blocked by %s", err, c.blocked)
					}
				} else if err != nil {
					t.Error(err)
				}
				if !slices.Equal(c.cluster.evicted, c.evicted) {
					t.Errorf("evicted %v, want %v", c.cluster.evicted, c.evicted)
				}
			})
		})
	}
}

// A drain that a budget blocks times out and names the pod.
func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &pods{list: []kube.Pod{pod("web", "ReplicaSet")}, refuse: map[string]int{"web": -1}}
		var told []kube.DrainState
		began := time.Now()
		err := kube.Drain(t.Context(), c, "n",
			kube.DrainOptions{Timeout: 20 * time.Second, Progress: func(s kube.DrainState) { told = append(told, s) }})
		var timeout *kube.DrainTimeoutError
		if !errors.As(err, &timeout) || len(timeout.Refused) != 1 || !strings.Contains(err.Error(), "d/web") {
			t.Errorf("%v, want a timeout that names the pod", err)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it took %s", took)
		}
		if len(told) != 1 || len(told[0].Refused) != 1 {
			t.Errorf("progress %v, want one message about the one pod", told)
		}
	})
}

// A cluster that never answers does not mean an empty node.
func TestDrainUnanswered(t *testing.T) {
	c := &pods{looks: 1, down: 1, list: []kube.Pod{pod("web", "ReplicaSet")}}
	if err := kube.Drain(t.Context(), c, "n", kube.DrainOptions{}); !errors.Is(err, kube.ErrUnreachable) {
		t.Errorf("%v, want ErrUnreachable", err)
	}
}
