package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// podSymptoms are about the node's pods, with what nobody can fix on Windows.
var podSymptoms = []symptom{
	{id: "pods-creating", severity: steps.SeverityWarning,
		why: "a pod that is not running after minutes needs help; usual causes are the pause image, the CNI plugin " +
			"or its own image", look: podsCreating},
	{id: "daemon-set", severity: steps.SeverityWarning,
		why: "a DaemonSet runs a pod on every node that it selects; one that names no operating system sends its " +
			"Linux image to Windows nodes, too", look: daemonSets},
	{id: "image-pull", severity: steps.SeverityWarning,
		why:  "the runtime fetches images, and it knows the proxy only from its environment at its start",
		look: imagePull},
	{id: "node-port-local", severity: steps.SeverityNote, os: "windows",
		why:  "a Windows node does not reach NodePorts on itself, by design; other nodes and the outside do",
		look: nodePortLocal},
	{id: "service-address-local", severity: steps.SeverityNote, os: "windows",
		why:  "a Windows node itself does not reach the addresses of services, by design; its pods do",
		look: serviceAddressLocal},
}

// creatingMost is how long a pod may take to start: the first images of a Windows node are several GB.
const creatingMost = 10 * time.Minute

func pullFails(p kube.Pod) bool {
	return slices.ContainsFunc([]string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"},
		func(r string) bool { return strings.HasPrefix(p.Waiting, r) })
}

func podsCreating(_ context.Context, x *diagnosis) (out []finding, err error) {
	for _, p := range x.c.Pods {
		if p.Waiting == "" || p.Finished || p.Ending || pullFails(p) || x.c.Clock.Sub(p.Created) < creatingMost {
			continue
		}
		out = append(out,
			finding{observed: observed{fmt.Sprintf("pod %s is not running after %s: %s", p,
				x.c.Clock.Sub(p.Created).Round(time.Minute), p.Waiting),
				fmt.Sprintf("kubectl describe pod --namespace %s %s", p.Namespace, p.Name)}})
	}
	return out, asked(x.c.PodsWhy)
}

// daemonSetMost is how long the controller may take to make the pod of a DaemonSet.
const daemonSetMost = 5 * time.Minute

// daemonSets finds DaemonSets without their pod on the node, and those whose pod has come to Windows by mistake.
func daemonSets(_ context.Context, x *diagnosis) (out []finding, err error) {
	for _, d := range x.c.DaemonSets {
		i := slices.IndexFunc(x.c.Pods, func(p kube.Pod) bool {
			return p.Controller == "DaemonSet" && p.Owner == d.Name && p.Namespace == d.Namespace
		})
		describe := fmt.Sprintf("kubectl describe daemonset --namespace %s %s", d.Namespace, d.Name)
		switch {
		case i < 0 && x.c.Clock.Sub(d.Created) > daemonSetMost:
			out = append(out, finding{observed: observed{
				fmt.Sprintf("DaemonSet %s selects this node and has no pod on it", d), describe}})
		case i >= 0 && x.c.Pods[i].Waiting != "" && !d.NamesOS && x.e.Facts.OS == "windows":
			out = append(out, finding{observed: observed{fmt.Sprintf("DaemonSet %s names no operating system, and its "+
				"pod %s is not running here: %s", d, x.c.Pods[i], x.c.Pods[i].Waiting),
				"if its image is for Linux, write nodeSelector: {kubernetes.io/os: linux} into the spec of its pods"}})
		}
	}
	return out, asked(x.c.DaemonSetsWhy)
}

func imagePull(ctx context.Context, x *diagnosis) (out []finding, err error) {
	if err := asked(x.c.PodsWhy); err != nil {
		return nil, err
	}
	var proxies []string
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY"} {
		v, err := host.LookupEnv(ctx, x.r, name)
		if err != nil {
			return nil, err
		}
		if v != "" {
			proxies = append(proxies, name)
		}
	}
	remedy := "the machine has no proxy: if it needs one, add proxy { ... } to the plan; else correct the image or " +
		"add a registry that has it"
	if len(proxies) > 0 {
		remedy = "the machine has " + strings.Join(proxies, " and ") +
			": correct it, or restart the runtime if it started before the proxy was set; else correct the image"
	}
	for _, p := range x.c.Pods {
		if pullFails(p) && !p.Finished && !p.Ending {
			out = append(out, finding{observed: observed{fmt.Sprintf("pod %s cannot pull its image: %s", p, p.Waiting),
				remedy}})
		}
	}
	return out, nil
}

// services names some of the cluster's services that match.
func (x *diagnosis) services(of func(kube.Service) bool, show func(kube.Service) string) (list string, n int) {
	var names []string
	for _, s := range x.c.Services {
		if of(s) {
			if n++; n <= 3 {
				names = append(names, show(s))
			}
		}
	}
	if n > 3 {
		names = append(names, fmt.Sprintf("and %d more", n-3))
	}
	return strings.Join(names, ", "), n
}

func nodePortLocal(_ context.Context, x *diagnosis) ([]finding, error) {
	list, n := x.services(func(s kube.Service) bool { return len(s.NodePorts) > 0 }, func(s kube.Service) string {
		return fmt.Sprintf("%s (port %d)", s, s.NodePorts[0])
	})
	if n == 0 {
		return nil, asked(x.c.ServicesWhy)
	}
	return []finding{{observed: observed{"NodePorts that do not answer on this machine itself:  " + list,
		"ask them from another machine"}}}, nil
}

func serviceAddressLocal(_ context.Context, x *diagnosis) ([]finding, error) {
	list, n := x.services(func(s kube.Service) bool {
		return s.ClusterIP != "" && s.Namespace != "kube-system" && s.String() != "default/kubernetes"
	}, func(s kube.Service) string {
		return fmt.Sprintf("%s (%s)", s, s.ClusterIP)
	})
	if n == 0 {
		return nil, asked(x.c.ServicesWhy)
	}
	return []finding{{observed: observed{"services whose addresses do not answer on this machine itself:  " +
		list, "ask them from a pod"}}}, nil
}
