package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/kube"
)

// ClusterQuirks are what is wrong with the pods of the simulated cluster. They are read from the file
// quirks.json in its folder at each question.
type ClusterQuirks struct {
	// Waiting is why no pod starts: "ImagePullBackOff: Back-off pulling image".
	Waiting string `json:"waiting,omitempty"`
	// WaitingOnce is the same for pods that run once.
	WaitingOnce string `json:"waiting_once,omitempty"`
	// Fails are packets that do not arrive, with the exit code of the sender: "ready" (from the kubelet to a
	// pod), "pod" and "other-node" (to a pod of the same or another one), "service", "name", "short-name",
	// "node-port", "node" (from a pod to its own node), "outbound"; and from the node itself "node-port-local"
	// and "service-from-node".
	Fails map[string]int32 `json:"fails,omitempty"`
	// Refuses are objects that admission refuses, with its message: "pod", "once" (a pod that runs once),
	// "host" (a pod on the network of its node), "service".
	Refuses map[string]string `json:"refuses,omitempty"`
	// Remains keeps namespaces from being deleted. It is what the cluster reports about them.
	Remains string `json:"remains,omitempty"`
}

func (k *Cluster) quirks() (q ClusterQuirks, err error) {
	err = readJSON(filepath.Join(k.dir, "quirks.json"), &q)
	return q, err
}

// Namespaces lists the namespaces with a label. Those that are being deleted disappear after it, unless Remains
// keeps them.
func (k *Cluster) Namespaces(ctx context.Context, label string) ([]kube.Namespace, error) {
	q, err := k.quirks()
	if err != nil {
		return nil, err
	}
	var out []kube.Namespace
	err = k.tell(ctx, "list namespaces with", label, func(s *clusterState) error {
		for name, n := range s.Namespaces.all() {
			if n.Ending && q.Remains == "" {
				s.Namespaces.remove(name)
				continue
			}
			if _, ok := n.Labels[label]; ok {
				if n.Ending {
					n.Remains = q.Remains
				}
				out = append(out, copied(n.Namespace))
			}
		}
		return nil
	})
	return out, err
}

// MakeNamespace creates a namespace.
func (k *Cluster) MakeNamespace(ctx context.Context, n kube.Namespace) error {
	return k.tell(ctx, "make namespace", n.Name, func(s *clusterState) error {
		if _, ok := s.Namespaces.get(n.Name); ok {
			return fs.ErrExist
		}
		n.Created = time.Now().UTC().Truncate(time.Second)
		s.Namespaces.set(n.Name, namespace{Namespace: n})
		return nil
	})
}

// EndNamespace requests the deletion of a namespace.
func (k *Cluster) EndNamespace(ctx context.Context, name string) error {
	return absentIsDone(k.inNamespace(ctx, "delete namespace", name, func(n *namespace) error {
		n.Ending = true
		return nil
	}))
}

func absentIsDone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// EndPods deletes the pods of a namespace.
func (k *Cluster) EndPods(ctx context.Context, name string) error {
	return absentIsDone(k.inNamespace(ctx, "delete pods of", name, func(n *namespace) error {
		n.Pods = nil
		return nil
	}))
}

func (k *Cluster) inNamespace(ctx context.Context, op, name string, f func(*namespace) error) error {
	return k.tell(ctx, op, name, func(s *clusterState) error {
		n, ok := s.Namespaces.edit(name)
		if !ok {
			return fs.ErrNotExist
		}
		if err := f(&n); err != nil {
			return err
		}
		s.Namespaces.set(name, n)
		return nil
	})
}

// admit refuses an object of a kind.
func (k *Cluster) admit(kind, name string) error {
	q, err := k.quirks()
	if why := q.Refuses[kind]; err == nil && why != "" {
		err = fmt.Errorf("creating %s: %w: %s", name, kube.ErrForbidden, why)
	}
	return err
}

// RunPod creates a pod.
func (k *Cluster) RunPod(ctx context.Context, p kube.PodSpec) error {
	kind := "pod"
	switch {
	case p.HostNetwork:
		kind = "host"
	case p.Once:
		kind = "once"
	}
	if err := k.admit(kind, "the pod "+p.Name); err != nil {
		return err
	}
	return k.inNamespace(ctx, "make pod in", p.Namespace, func(n *namespace) error {
		if n.Ending || slices.ContainsFunc(n.Pods, func(o kube.PodSpec) bool { return o.Name == p.Name }) {
			return fs.ErrExist
		}
		n.Pods = append(n.Pods, p)
		return nil
	})
}

// through reports whether the kubelet of a pod's Node answers the API server about it.
func (k *Cluster) through(ctx context.Context, ns, name, what string) error {
	q, err := k.quirks()
	if err != nil {
		return err
	}
	if err := k.admit(what, "pods/"+what+" of "+name); err != nil {
		return err
	}
	pod, err := k.PodState(ctx, ns, name)
	switch {
	case err != nil:
		return err
	case !pod.Running || q.Fails[what] != 0:
		return fmt.Errorf("%s of pod %s/%s: error dialing backend: no route to host", what, ns, name)
	}
	return nil
}

// PodLog returns an empty log.
func (k *Cluster) PodLog(ctx context.Context, ns, name string) (string, error) {
	return "", k.through(ctx, ns, name, "logs")
}

// Exec plays echo.
func (k *Cluster) Exec(ctx context.Context, ns, name string, command []string) (string, error) {
	return command[len(command)-1] + "\r\n", k.through(ctx, ns, name, "exec")
}

// Forward reaches a pod that runs.
func (k *Cluster) Forward(ctx context.Context, ns, name string, _ int32) error {
	return k.through(ctx, ns, name, "port-forward")
}

// NodeMetrics returns the usage of a Node that is Ready.
func (k *Cluster) NodeMetrics(ctx context.Context, node string) (string, error) {
	q, err := k.quirks()
	if err != nil {
		return "", err
	}
	if err := k.admit("metrics", "nodes/proxy of "+node); err != nil {
		return "", err
	}
	n, err := k.Node(ctx, node)
	if err == nil && (!n.Ready || q.Fails["metrics"] != 0) {
		err = fmt.Errorf("metrics of %s: error dialing backend: no route to host", node)
	}
	return "node_cpu_usage_seconds_total 1\n", err
}

// MakeService creates a service with the next free address and port.
func (k *Cluster) MakeService(ctx context.Context, spec kube.ServiceSpec) (out kube.Service, err error) {
	if err := k.admit("service", "the service "+spec.Name); err != nil {
		return out, err
	}
	err = k.tell(ctx, "make service in", spec.Namespace, func(s *clusterState) error {
		n, ok := s.Namespaces.edit(spec.Namespace)
		if !ok {
			return fs.ErrNotExist
		}
		taken := 0
		for _, o := range s.Namespaces.all() {
			for _, s := range o.Services {
				if !s.Headless {
					taken++
				}
			}
		}
		made := playedService{spec, fmt.Sprintf("10.96.200.%d", taken+1), int32(30000 + taken + 1)}
		if spec.Headless {
			made.ClusterIP, made.NodePort = "None", 0
		}
		n.Services = append(n.Services, made)
		s.Namespaces.set(n.Name, n)
		out = kube.Service{Namespace: spec.Namespace, Name: spec.Name, ClusterIP: made.ClusterIP,
			NodePorts: []int32{made.NodePort}}
		return nil
	})
	return out, err
}

// PodState returns the state of a pod: it runs at once, and its probes have finished.
func (k *Cluster) PodState(ctx context.Context, ns, name string) (out kube.PodState, err error) {
	q, err := k.quirks()
	if err != nil {
		return out, err
	}
	err = k.ask(ctx, "read pod", ns+"/"+name, func(s *clusterState) error {
		n, ok := s.Namespaces.get(ns)
		if !ok {
			return fs.ErrNotExist
		}
		i := slices.IndexFunc(n.Pods, func(p kube.PodSpec) bool { return p.Name == name })
		if i < 0 {
			return fs.ErrNotExist
		}
		out = s.played(&n, i, q)
		return nil
	})
	return out, err
}

// played returns the state of the pod with this number.
func (s *clusterState) played(n *namespace, i int, q ClusterQuirks) (out kube.PodState) {
	p := n.Pods[i]
	node, why := s.schedule(p)
	for _, c := range p.Containers {
		out.Containers = append(out.Containers, kube.ContainerState{Name: c.Name})
	}
	if node == nil {
		out.Waiting = "no Node takes it: " + why
		return out
	}
	out.Node = node.Name
	switch {
	case !node.Ready:
		out.Waiting = "ContainerCreating"
		return out
	case q.Waiting != "":
		out.Waiting = q.Waiting
		return out
	case q.WaitingOnce != "" && p.Once:
		out.Waiting = q.WaitingOnce
		return out
	}
	out.IP, out.Running, out.Ready = s.podIP(n, i), true, true
	for j, c := range p.Containers {
		if c.Port != 0 {
			out.Containers[j].Up = true
			out.Ready = out.Ready && q.Fails["ready"] == 0
			continue
		}
		if code := s.arrives(n, node, p.HostNetwork, c.Args, q); code != 0 {
			out.Containers[j].Failed, out.Containers[j].ExitCode, out.Containers[j].Tries = true, code, 3
		} else if p.Once {
			out.Containers[j].Done, out.Containers[j].Tries = true, 1
		}
	}
	return out
}

// schedule finds the Node that takes a pod, or says why none does.
func (s *clusterState) schedule(p kube.PodSpec) (*kube.Node, string) {
	why := fmt.Sprintf("0/%d nodes are available", len(s.Nodes.names()))
	for _, n := range s.Nodes.all() {
		fits := true
		for key, v := range p.NodeSelector {
			fits = fits && n.Labels[key] == v
		}
		if !fits {
			continue
		}
		if n.Unschedulable {
			return nil, why + ": 1 node(s) were unschedulable"
		}
		for _, t := range n.Taints {
			if t.Effect != "PreferNoSchedule" && !slices.Contains(p.Tolerates, t) {
				return nil, why + ": 1 node(s) had untolerated taint " + t.Key
			}
		}
		return &n, ""
	}
	return nil, why + ": none matched the pod's node selector"
}

// podIP returns the address of the pod with this number, in the network of its Node.
func (s *clusterState) podIP(n *namespace, i int) string {
	node, _ := s.schedule(n.Pods[i])
	if node == nil {
		return ""
	}
	if n.Pods[i].HostNetwork {
		return node.InternalIP
	}
	subnet, err := netip.ParsePrefix(node.PodCIDR)
	if err != nil {
		return ""
	}
	ip := subnet.Addr()
	for range 10 + i {
		ip = ip.Next()
	}
	return ip.String()
}

// hasPod reports whether a pod is ready behind a service.
func (s *clusterState) hasPod(n *namespace, svc playedService, q ClusterQuirks) bool {
	for i, p := range n.Pods {
		if node, _ := s.schedule(p); node != nil && node.Ready && q.Waiting == "" && q.Fails["ready"] == 0 &&
			contains(p.Labels, svc.Selector) && s.podIP(n, i) != "" {
			return true
		}
	}
	return false
}

// arrives returns the exit code of a container on a Node, or on the Node's own network, that connects to its
// last argument, a URL or HOST:PORT.
func (s *clusterState) arrives(n *namespace, from *kube.Node, itself bool, args []string, q ClusterQuirks) int32 {
	if len(args) == 0 {
		return 0
	}
	at := args[len(args)-1]
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		at = u.Host
	}
	name, port, err := net.SplitHostPort(at)
	if err != nil {
		name = at
	}
	const unknownName, noConnection = 6, 7 // curl's exit codes
	for _, svc := range n.Services {
		answers := int32(noConnection)
		if s.hasPod(n, svc, q) {
			answers = 0
		}
		switch {
		case itself && name == from.InternalIP && port == fmt.Sprint(svc.NodePort):
			return max(answers, q.Fails["node-port-local"])
		case itself && name == svc.ClusterIP:
			return max(answers, q.Fails["service-from-node"])
		case name == svc.ClusterIP:
			return max(answers, q.Fails["service"])
		case name == svc.Name:
			return max(answers, q.Fails["short-name"])
		case strings.HasPrefix(name, svc.Name+"."+n.Name+".svc."):
			return max(answers, q.Fails["name"])
		}
	}
	for _, p := range n.Pods { // by their names
		if p.Subdomain != "" && strings.HasPrefix(name, p.Name+"."+p.Subdomain+"."+n.Name+".svc.") &&
			slices.ContainsFunc(n.Services, func(s playedService) bool { return s.Headless && s.Name == p.Subdomain }) {
			return max(q.Fails["pod-name"], q.Fails["ready"]) // one that is not ready has no name
		}
	}
	for i, p := range n.Pods {
		if p.HostNetwork || name != s.podIP(n, i) {
			continue
		}
		if node, _ := s.schedule(p); node != nil && from != nil && node.Name == from.Name {
			return q.Fails["pod"]
		}
		return q.Fails["other-node"]
	}
	if strings.Contains(name, ".svc.") || !strings.Contains(name, ".") {
		return unknownName
	}
	if from != nil && name == from.InternalIP {
		return q.Fails["node"]
	}
	return q.Fails["outbound"]
}

func contains(have, want map[string]string) bool {
	for key, v := range want {
		if have[key] != v {
			return false
		}
	}
	return true
}

// Outside connects to a NodePort from outside the cluster: http://ADDRESS:PORT/.
func (k *Cluster) Outside(ctx context.Context, address string) error {
	q, err := k.quirks()
	if err != nil {
		return err
	}
	return k.ask(ctx, "ask", address, func(s *clusterState) error {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		for _, n := range s.Namespaces.all() {
			for _, svc := range n.Services {
				if u.Port() != fmt.Sprint(svc.NodePort) {
					continue
				}
				for _, node := range s.Nodes.all() {
					if node.InternalIP == u.Hostname() && node.Ready && q.Fails["node-port"] == 0 &&
						s.arrives(&n, &node, false, []string{svc.ClusterIP},
							ClusterQuirks{Waiting: q.Waiting, Fails: map[string]int32{"ready": q.Fails["ready"]}}) == 0 {
						return nil
					}
				}
			}
		}
		return errors.New("connection refused")
	})
}
