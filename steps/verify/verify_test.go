package verify_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
	"nodejoin/steps/verify"
)

// TestVerify: in a cluster in good order everything passes but what no Windows node can.
func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.opt.Targets = []verify.Target{{Node: "win-1", Version: "1.36.3"}, {Node: "lin-1", Version: "1.36.3"}}
		r := b.run()
		if have := states(r, "win-1"); have != windowsLimits {
			t.Errorf("win-1: %s", have)
		}
		if have := states(r, "lin-1"); have != "pod-to-linux=not_possible" {
			t.Errorf("lin-1: %s", have)
		}
		if have := of(r, "win-1")["web-server"].Detail; have != "image-for-windows-10.0.20348" {
			t.Errorf("image %s", have)
		}
		names := map[string]bool{}
		for _, f := range verify.Flows {
			names[f.Name] = true
			if _, ok := of(r, "win-1")[f.Name]; !ok || f.What == "" {
				t.Errorf("%s: it has no result, or says nothing", f.Name)
			}
		}
		if len(names) != len(of(r, "win-1")) || len(names) != len(of(r, "lin-1")) || !strings.HasPrefix(r.Namespace,
			"nodejoin-verify-") || r.Failed() != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestVerifyFromNode: a Linux node itself is asked for its node port and a service, on its
// own network; each fails by itself, and a policy against such pods is not a failure.
func TestVerifyFromNode(t *testing.T) {
	for name, c := range map[string]struct {
		quirks sandbox.ClusterQuirks
		states string
		flow   string
		has    string
	}{
		"node port": {sandbox.ClusterQuirks{Fails: map[string]int32{"node-port-local": 1}}, "node-port-local=fail",
			"node-port-local", "192.0.2.13:30001 did not answer: exit code 1, after 3 tries"},
		"service": {sandbox.ClusterQuirks{Fails: map[string]int32{"service-from-node": 1}}, "service-from-node=fail",
			"service-from-node", "10.96.200.1:80 did not answer"},
		"policy": {sandbox.ClusterQuirks{Refuses: map[string]string{"host": "host namespaces are not allowed"}},
			"node-port-local=not_possible service-from-node=not_possible", "service-from-node",
			"host namespaces are not allowed"},
		"no service": {sandbox.ClusterQuirks{Refuses: map[string]string{"service": "quota"}},
			"service=fail name=fail short-name=fail pod-name=fail node-port=fail node-port-local=fail " +
				"service-from-node=fail",
			"service-from-node", "quota"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				b.opt.Targets = []verify.Target{{Node: "lin-1", Version: "1.36.3"}}
				b.quirks(c.quirks)
				r := b.run()
				if have := states(r, "lin-1"); have != "pod-to-linux=not_possible pod-to-windows=not_possible "+c.states {
					t.Errorf("have %s", have)
				}
				if d := of(r, "lin-1")[c.flow].Detail; !strings.Contains(d, c.has) {
					t.Errorf("%q is not in %s", c.has, d)
				}
			})
		})
	}
}

// TestVerifyFails: each flow fails by itself, says what was asked and what came of it,
// and keeps no other from being tried.
func TestVerifyFails(t *testing.T) {
	for quirk, c := range map[string]struct {
		states string // but for windowsLimits
		flow   string
		has    []string
	}{
		"pod": {"pod-to-pod=fail", "pod-to-pod", []string{"10.244.1.10:80", "no answer in time (exit code 28)",
			"3 tries"}},
		"node": {"pod-to-node=fail", "pod-to-node", []string{"192.0.2.11:10250",
			"no answer in time (exit code 28)"}},
		"other-node":   {"pod-to-linux=fail pod-to-windows=fail", "pod-to-linux", []string{"10.244.3."}},
		"service":      {"service=fail", "service", []string{"10.96.200.1:80"}},
		"name":         {"name=fail", "name", []string{".svc.cluster.local:80"}},
		"short-name":   {"short-name=fail", "short-name", []string{"web-1:80"}},
		"outbound":     {"outbound=fail outbound-name=fail", "outbound-name", []string{"registry.example:443"}},
		"pod-name":     {"pod-name=fail", "pod-name", []string{"web-2.pods.nodejoin-verify-", ".svc.cluster.local:80"}},
		"logs":         {"logs=fail", "logs", []string{"the kubelet did not answer in 2m0s", "no route to host"}},
		"exec":         {"exec=fail", "exec", []string{"the container did not answer in 2m0s"}},
		"port-forward": {"port-forward=fail", "port-forward", []string{"the web server did not answer in 2m0s"}},
		"metrics":      {"metrics=fail", "metrics", []string{"metrics of win-1", "no route to host"}},
		"node-port":    {"node-port=fail", "node-port", []string{"http://192.0.2.11:30001/", "connection refused"}},
	} {
		t.Run(quirk, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				b.quirks(sandbox.ClusterQuirks{Fails: map[string]int32{quirk: 28}})
				r := b.run()
				if have := states(r, "win-1"); have != c.states+" "+windowsLimits {
					t.Errorf("have %s", have)
				}
				for _, has := range c.has {
					if d := of(r, "win-1")[c.flow].Detail; !strings.Contains(d, has) {
						t.Errorf("%q is not in %s", has, d)
					}
				}
				if r.Failed() != strings.Count(c.states, "=fail") {
					t.Errorf("%d failed", r.Failed())
				}
			})
		})
	}
}

// TestVerifyThroughAPIServer: what the cluster does not let the user do cannot be tried, and neither can a name
// outside where only an address is known.
func TestVerifyThroughAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.opt.Outbound = "https://192.0.2.1:6443"
		b.quirks(sandbox.ClusterQuirks{Refuses: map[string]string{"exec": "no pods/exec", "metrics": "no nodes/proxy"}})
		r := b.run()
		if have := states(r, "win-1"); have != "outbound-name=not_possible exec=not_possible metrics=not_possible "+
			windowsLimits || r.Failed() != 0 {
			t.Errorf("have %s", have)
		}
		for flow, has := range map[string]string{"exec": "no pods/exec", "metrics": "no nodes/proxy",
			"outbound-name": "--outbound https://NAME/"} {
			if d := of(r, "win-1")[flow].Detail; !strings.Contains(d, has) {
				t.Errorf("%s: %q is not in %q", flow, has, d)
			}
		}
	})
}

// TestVerifyNotReadyServer: a web server that its kubelet does not reach may be reached
// by pods, but is behind no service.
func TestVerifyNotReadyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.quirks(sandbox.ClusterQuirks{Fails: map[string]int32{"ready": 1}})
		r := b.run()
		if have := states(r,
			"win-1"); have != "node-to-pod=fail service=fail name=fail short-name=fail pod-name=fail "+
			"node-port=fail "+windowsLimits {
			t.Errorf("have %s", have)
		}
		if d := of(r, "win-1")["node-to-pod"].Detail; !strings.Contains(d,
			"timed out after 2m0s: waited until the web server answers the kubelet") {
			t.Error(d)
		}
	})
}

// TestVerifyNothingStarts: pods that do not start are a failure that says what was
// waited for and seen; the rest is not possible, and all is gone in the end.
func TestVerifyNothingStarts(t *testing.T) {
	for name, c := range map[string]struct {
		do  func(b *bed)
		has string
	}{
		"image": {func(b *bed) {
			b.quirks(sandbox.ClusterQuirks{Waiting: "ImagePullBackOff: Back-off pulling image"})
		}, "last seen: ImagePullBackOff: Back-off pulling image"},
		"creating": {func(b *bed) {
			b.quirks(sandbox.ClusterQuirks{Waiting: "ContainerCreating: FailedCreatePodSandBox: no"})
		}, "last seen: ContainerCreating: FailedCreatePodSandBox"},
		"lost meanwhile": {func(b *bed) {
			b.opt.Image = func(string, string) (string, error) { // called once the Node was judged
				n := node("win-1", "windows", "192.0.2.11", "10.244.1.0/24", osTaint)
				n.Ready = false
				b.put(n)
				return "i", nil
			}
		}, "last seen: ContainerCreating"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				c.do(b)
				r := b.run()
				res := of(r, "win-1")
				if f := res["web-server"]; f.Status != verify.Fail ||
					!strings.Contains(f.Detail, "timed out after 20m0s: waited until the web server runs") ||
					!strings.Contains(f.Detail, c.has) {
					t.Errorf("%+v", f)
				}
				for _, f := range verify.Flows[2:] {
					if res[f.Name].Status != verify.NotPossible {
						t.Errorf("%+v", res[f.Name])
					}
				}
				if len(b.waits) == 0 || !strings.Contains(b.waits[0], "waits until the web server runs") {
					t.Errorf("told: %q", b.waits)
				}
			})
		})
	}
}

// TestVerifyRefused: what the cluster refuses, or never starts, has failed, and says why.
func TestVerifyRefused(t *testing.T) {
	const quota = "exceeded quota: none"
	var untried []string
	for _, f := range verify.Flows[2:] {
		untried = append(untried, f.Name+"=not_possible")
	}
	for name, c := range map[string]struct {
		quirks sandbox.ClusterQuirks
		states string
		flow   string
		has    string
	}{
		"the web server": {sandbox.ClusterQuirks{Refuses: map[string]string{"pod": quota}},
			"web-server=fail " + strings.Join(untried, " "), "web-server", quota},
		"the service": {sandbox.ClusterQuirks{Refuses: map[string]string{"service": quota}},
			"service=fail name=fail short-name=fail pod-name=fail node-port=fail " + windowsLimits, "node-port", quota},
		"the pod that asks": {sandbox.ClusterQuirks{Refuses: map[string]string{"once": quota}},
			"pod-to-pod=fail pod-to-node=fail pod-to-linux=fail pod-to-windows=fail service=fail name=fail " +
				"short-name=fail pod-name=fail outbound=fail outbound-name=fail " + windowsLimits, "outbound", quota},
		"the start of the pod that asks": {sandbox.ClusterQuirks{WaitingOnce: "no Node takes it: Insufficient pods"},
			"pod-to-pod=fail pod-to-node=fail pod-to-linux=fail pod-to-windows=fail service=fail name=fail " +
				"short-name=fail pod-name=fail outbound=fail outbound-name=fail " + windowsLimits, "service",
			"last seen: no Node takes it: Insufficient pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				b.quirks(c.quirks)
				r := b.run()
				if have := states(r, "win-1"); have != c.states || r.Failed() == 0 {
					t.Errorf("have %s\nwant %s", have, c.states)
				}
				if d := of(r, "win-1")[c.flow].Detail; !strings.Contains(d, c.has) {
					t.Errorf("%q is not in %s", c.has, d)
				}
			})
		})
	}
}

// TestVerifyNodes: a node that takes no pods has its reason, and no namespace is made
// for such ones alone.
func TestVerifyNodes(t *testing.T) {
	ready := node("win-1", "windows", "192.0.2.11", "10.244.1.0/24")
	for name, c := range map[string]struct {
		do     func(n *kube.Node)
		status verify.Status
		has    string // of the Node
		why    string // of the rest; "" = it is tried
	}{
		"not ready": {func(n *kube.Node) { n.Ready, n.ReadyReason = false, "KubeletNotReady: cni" }, verify.Fail,
			"the Node is not Ready: KubeletNotReady: cni", "the Node is not Ready"},
		"gone": {func(n *kube.Node) { n.Name = "other" }, verify.Fail, "the cluster has no Node win-9",
			"there is no Node"},
		"cordoned": {func(n *kube.Node) { n.Unschedulable = true }, verify.Pass, "Ready", "cordoned"},
		"other version": {func(n *kube.Node) { n.KubeletVersion = "v1.35.4" }, verify.Fail,
			"its kubelet is v1.35.4, and the plan says 1.36.3", ""},
		"no image": {func(n *kube.Node) { n.Labels["node.kubernetes.io/windows-build"] = "10.0.1" }, verify.Pass,
			"Ready", "no image for 10.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				n := ready
				n.Name, n.Labels = "win-9", maps.Clone(ready.Labels)
				n.Labels["kubernetes.io/hostname"] = "win-9"
				c.do(&n)
				b.put(n)
				b.opt.Targets = []verify.Target{{Node: "win-9", Version: "1.36.3"}}
				b.opt.Image = func(os, build string) (string, error) {
					if build == "10.0.1" {
						return "", fmt.Errorf("no image for %s", build)
					}
					return "i", nil
				}
				r := b.run()
				res := of(r, "win-9")
				if f := res["node"]; f.Status != c.status || !strings.Contains(f.Detail, c.has) {
					t.Errorf("%+v", f)
				}
				if f := res["web-server"]; c.why != "" &&
					(f.Status != verify.NotPossible || !strings.Contains(f.Detail, c.why)) || c.why == "" && f.Status != verify.Pass {
					t.Errorf("%+v", f)
				}
				if made := r.Namespace != ""; made != (c.why == "" || name == "no image") {
					t.Errorf("namespace %q", r.Namespace)
				}
			})
		})
	}
}

// TestVerifyPeers: pods are put on a node that is not a target only where it takes them
// without being asked to tolerate more than targets do.
func TestVerifyPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		lin := node("lin-1", "linux", "192.0.2.13", "10.244.3.0/24",
			kube.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"})
		b.put(lin)
		if have := states(b.run(), "win-1"); have != "pod-to-linux=not_possible "+windowsLimits {
			t.Errorf("have %s", have)
		}
		b.told = nil
		win := node("win-2", "windows", "192.0.2.12", "10.244.2.0/24", osTaint, kube.Taint{Key: "own", Effect: "NoExecute"})
		b.put(win)
		if have := states(b.run(), "win-1"); have != "pod-to-linux=not_possible pod-to-windows=not_possible "+windowsLimits {
			t.Errorf("have %s", have)
		}
	})
}

// TestVerifyPeerDown: where a node that only helps runs no pod, its way has failed, for
// nothing else tells of it; where there is no image for it, it cannot be tried.
func TestVerifyPeerDown(t *testing.T) {
	for name, c := range map[string]struct {
		image  error
		states string
		has    string
	}{
		"does not start": {nil, "pod-to-linux=fail ", "the web server does not run on lin-1: timed out after 20m0s"},
		"no image": {errors.New("no image for it"), "pod-to-linux=not_possible ",
			"the web server does not run on lin-1: no image for it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				b.opt.Image = func(os, _ string) (string, error) {
					if os != "linux" {
						return "i", nil
					}
					n := node("lin-1", "linux", "192.0.2.13", "10.244.3.0/24")
					n.Ready = false // from now on
					b.put(n)
					return "i", c.image
				}
				r := b.run()
				if have := states(r, "win-1"); have != c.states+windowsLimits {
					t.Errorf("have %s", have)
				}
				if d := of(r, "win-1")["pod-to-linux"].Detail; !strings.Contains(d, c.has) {
					t.Error(d)
				}
			})
		})
	}
}

// TestVerifyInterrupted: nothing is left of a run that is stopped while it waits.
func TestVerifyInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.quirks(sandbox.ClusterQuirks{Waiting: "ContainerCreating"})
		ctx, cancel := context.WithCancel(t.Context())
		b.onWait = cancel
		r, err := verify.Run(ctx, b.opt)
		if !errors.Is(err, context.Canceled) || r.Namespace == "" || r.Remains != "" {
			t.Errorf("%+v, %v", r, err)
		}
		if have := states(r, "win-1"); have != "" {
			t.Errorf("flows that were not tried have a result: %s", have)
		}
		b.none()
	})
}

// TestVerifyClears: what runs have left that are over goes; that of others at work stays.
func TestVerifyClears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for name, notes := range map[string]map[string]string{
			"nodejoin-verify-over": {"nodejoin.dev/verify-until": "1999-01-01T00:00:00Z",
				"nodejoin.dev/verify-holder": "ctl 1"},
			"nodejoin-verify-gone": {"nodejoin.dev/verify-until": "2999-01-01T00:00:00Z",
				"nodejoin.dev/verify-holder": "ctl 2"},
			"nodejoin-verify-busy": {"nodejoin.dev/verify-until": "2999-01-01T00:00:00Z",
				"nodejoin.dev/verify-holder": "ctl 3"},
			"somebody-else": {"nodejoin.dev/verify-until": "1999-01-01T00:00:00Z"},
		} {
			must(t, b.cluster.MakeNamespace(t.Context(),
				kube.Namespace{Name: name, Labels: map[string]string{verify.Label: ""}, Annotations: notes}))
		}
		b.opt.Gone = func(holder string) bool { return holder == "ctl 2" }
		r, err := verify.Run(t.Context(), b.opt)
		must(t, err)
		if !slices.Equal(r.Removed, []string{"nodejoin-verify-gone", "nodejoin-verify-over"}) ||
			!slices.Equal(r.Others, []string{"nodejoin-verify-busy", "somebody-else"}) || r.Remains != "" {
			t.Errorf("%+v", r)
		}
	})
}

// TestVerifyRemains: a namespace that does not go is told, and is removed by the next run.
func TestVerifyRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.quirks(sandbox.ClusterQuirks{Remains: "Some content in the namespace has finalizers remaining"})
		r, err := verify.Run(t.Context(), b.opt)
		must(t, err)
		if !strings.Contains(r.Remains, "is not gone after 2m0s: Some content") || states(r, "win-1") != windowsLimits {
			t.Errorf("%+v", r)
		}
		b.quirks(sandbox.ClusterQuirks{})
		b.opt.Gone = func(string) bool { return true }
		b.told = nil
		// a namespace that is deleted already may be gone before it is looked at
		if again := b.run(); len(again.Removed)+len(again.Others) > 1 {
			t.Errorf("%+v", again)
		}
	})
}

// TestVerifyWithoutCluster: an API server that does not answer is an error, not a result.
func TestVerifyWithoutCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		must(t, b.cluster.SetDown(t.Context(), true))
		if r, err := verify.Run(t.Context(), b.opt); !errors.Is(err, kube.ErrUnreachable) || len(r.Results) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestVerifyOutlastsSilence: an API server that is away for a while ends nothing.
func TestVerifyOutlastsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.quirks(sandbox.ClusterQuirks{Waiting: "ContainerCreating"})
		var once sync.Once
		b.onWait = func() {
			once.Do(func() {
				must(t, b.cluster.SetDown(t.Context(), true))
				go func() {
					time.Sleep(time.Minute)
					b.quirks(sandbox.ClusterQuirks{})
					_ = b.cluster.SetDown(context.Background(), false)
				}()
			})
		}
		if have := states(b.run(), "win-1"); have != windowsLimits {
			t.Errorf("have %s", have)
		}
	})
}
