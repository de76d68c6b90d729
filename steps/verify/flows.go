package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

const (
	osLabel    = "kubernetes.io/os"
	hostLabel  = "kubernetes.io/hostname"
	buildLabel = "node.kubernetes.io/windows-build"
	appLabel   = "app"
	webLabel   = "web-server" // all of them
)

// flows runs the checks in the namespace.
func (r *run) flows(ctx context.Context) error {
	servers := r.servers()
	_, err := r.API.MakeService(ctx, kube.ServiceSpec{Namespace: r.ns, Name: podsName, Headless: true,
		Selector: map[string]string{webLabel: podsName}, Port: webPort})
	if err != nil && (unasked(err) || ctx.Err() != nil) {
		return err
	} // one that is refused makes the names of pods fail
	for _, s := range servers {
		if err := r.launch(ctx, s); err != nil {
			return err
		}
	}
	r.each(servers, func(s *server) { r.await(ctx, s) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.each(servers, func(s *server) {
		if s.target {
			r.ask(ctx, s, servers)
		}
	})
	return nil
}

// each runs f for all at once and waits.
func (r *run) each(list []*server, f func(*server)) {
	var all sync.WaitGroup
	for _, s := range list {
		all.Go(func() { f(s) })
	}
	all.Wait()
}

// servers are the targets that can run pods, and another node for an OS with only one.
func (r *run) servers() (out []*server) {
	var tolerate []kube.Taint
	add := func(n kube.Node, target bool) {
		out = append(out, &server{node: n, os: n.Labels[osLabel], name: fmt.Sprintf("web-%d", len(out)+1),
			target: target, tolerate: tolerate})
	}
	for _, t := range r.Targets {
		// The plan's taints are for pods like these; those that the cluster sets mean that the node takes
		// no pods.
		for _, taint := range r.nodes[t.Node].Taints {
			if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") && !slices.Contains(tolerate, taint) {
				tolerate = append(tolerate, taint)
			}
		}
	}
	for _, t := range r.Targets {
		if n := r.nodes[t.Node]; n.Ready && !n.Unschedulable {
			add(n, true)
		}
	}
	for _, os := range []string{"linux", "windows"} {
		of := 0
		for _, s := range out {
			if s.os == os {
				of++
			}
		}
		if of >= 2 { // each other's peers
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
			if n := r.nodes[name]; n.Labels[osLabel] == os && r.free(n, out, tolerate) {
				add(n, false)
				break
			}
		}
	}
	return out
}

// free reports whether a node that is not a target takes pods that tolerate no more than
// what targets ask for.
func (r *run) free(n kube.Node, have []*server, tolerate []kube.Taint) bool {
	return n.Ready && !n.Unschedulable && !slices.ContainsFunc(n.Taints, func(t kube.Taint) bool {
		return t.Effect != "PreferNoSchedule" && !slices.Contains(tolerate, t)
	}) &&
		!slices.ContainsFunc(have, func(s *server) bool { return s.node.Name == n.Name }) &&
		!slices.ContainsFunc(r.Targets, func(t Target) bool { return t.Node == n.Name })
}

// launch makes the web server's pod and its service. What the cluster refuses is kept as
// the server's failure.
func (r *run) launch(ctx context.Context, s *server) error {
	var err error
	if s.image, err = r.Image(s.os, s.node.Labels[buildLabel]); err != nil {
		s.why, s.status = err.Error(), NotPossible
		return nil //nolint:nilerr // it is the result of the flows to this server
	}
	s.status = Fail
	refused := func(err error) (why string, _ error) {
		if err == nil || unasked(err) || ctx.Err() != nil {
			return "", err
		}
		return err.Error(), nil
	}
	pod := r.pod(s, s.name, kube.Container{Name: "web-server", Port: webPort})
	pod.Containers[0].Command, pod.Containers[0].Args = serve(s.os)
	pod.Containers[0].Image = s.image
	pod.Subdomain, pod.Labels[webLabel] = podsName, podsName
	if s.why, err = refused(r.API.RunPod(ctx, pod)); err != nil || s.why != "" {
		return err
	}
	s.service, err = r.API.MakeService(ctx, kube.ServiceSpec{Namespace: r.ns, Name: s.name,
		Selector: map[string]string{appLabel: s.name}, Port: webPort})
	s.unserved, err = refused(err)
	return err
}

// pod is a pod on the node of a server.
func (r *run) pod(s *server, name string, containers ...kube.Container) kube.PodSpec {
	host := s.node.Labels[hostLabel]
	if host == "" {
		host = s.node.Name
	}
	return kube.PodSpec{Namespace: r.ns, Name: name, Labels: map[string]string{appLabel: name}, OS: s.os,
		NodeSelector: map[string]string{osLabel: s.os, hostLabel: host}, Tolerates: s.tolerate, Containers: containers}
}

// watch reads a pod until ok, at most for bound; flow is what waits for it. It returns the last state and
// why it is not ok, if so.
func (r *run) watch(ctx context.Context, s *server, flow, pod, what string, bound time.Duration,
	ok func(kube.PodState) bool) (last kube.PodState, why string) {
	timed, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	seen := "nothing yet"
	err := wait.Until(timed, lookMost, func() (bool, error) {
		state, err := r.API.PodState(timed, r.ns, pod)
		switch {
		case timed.Err() != nil:
			return false, nil //nolint:nilerr // the end of its time is reported below
		case unasked(err):
			seen = err.Error()
			return false, nil
		case errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("its pod %s/%s is gone: something else deleted it", r.ns, pod)
		case err != nil:
			return false, err
		}
		last = state
		if ok(state) {
			return true, nil
		}
		if state.Waiting != "" {
			seen = state.Waiting
		} else if !state.Running {
			seen = "its containers have not been started"
		} else if i := slices.IndexFunc(state.Containers, func(c kube.ContainerState) bool {
			return c.Failed && !c.Up
		}); i >= 0 {
			seen = fmt.Sprintf("container %s ended with %d, %d times so far", state.Containers[i].Name,
				state.Containers[i].ExitCode, state.Containers[i].Tries)
		} else {
			seen = "it runs, and is not there yet"
		}
		r.Reporter.Waits(s.node.Name, flow, "waits until "+what+"; so far: "+seen)
		return false, nil
	})
	switch {
	case err == nil:
		return last, ""
	case ctx.Err() != nil:
		return last, "interrupted"
	case timed.Err() != nil:
		return last, fmt.Sprintf("timed out after %s: waited until %s; last seen: %s", bound, what, seen)
	}
	return last, err.Error()
}

// serves reports whether all containers of a web server run; one that has been started and
// ended again does not count.
func serves(p kube.PodState) bool {
	return p.Running && p.IP != "" && !slices.ContainsFunc(p.Containers, func(c kube.ContainerState) bool {
		return !c.Up
	})
}

// await waits for a web server. The bound counts from the last progress: the pod runs, then it is Ready.
func (r *run) await(ctx context.Context, s *server) {
	began := time.Now()
	tell := func(flow string, status Status, detail string) {
		if s.target && ctx.Err() == nil {
			r.done(Result{Node: s.node.Name, Flow: flow, Status: status, Detail: detail, Took: time.Since(began)})
		}
	}
	if s.why == "" {
		s.state, s.why = r.watch(ctx, s, "web-server", s.name, "the web server runs (image "+s.image+")", r.Start, serves)
	}
	if s.why != "" {
		tell("web-server", s.status, s.why)
		for _, f := range Flows[2:] {
			tell(f.Name, NotPossible, "the web server does not run on the node")
		}
		return
	}
	s.up = true
	tell("web-server", Pass, s.image)
	began = time.Now()
	state, why := r.watch(ctx, s, "node-to-pod", s.name, "the web server answers the kubelet", r.Answer,
		func(p kube.PodState) bool { return p.Ready })
	if why != "" {
		tell("node-to-pod", Fail, why)
		return
	}
	s.state = state
	tell("node-to-pod", Pass, "")
}

// kubeletPort is the port of the kubelet's API, which answers everybody, even if only with "unauthorized".
const kubeletPort = "10250"

// ask runs the pod that asks, and asks from outside.
func (r *run) ask(ctx context.Context, s *server, servers []*server) {
	if !s.up {
		return
	}
	node := s.node.Name
	list := []question{{"pod-to-pod", s.state.IP, ""}, r.podName(s, servers), {"outbound", "", r.Outbound}}
	list = append(list, r.outboundName(node)...)
	if s.node.InternalIP != "" {
		list = append(list, question{"pod-to-node", "", "https://" + net.JoinHostPort(s.node.InternalIP, kubeletPort)})
	} else {
		r.not(node, "pod-to-node", "the Node has no address")
	}
	if s.unserved == "" {
		list = append(list, question{"service", s.service.ClusterIP, ""},
			question{"name", s.name + "." + r.ns + ".svc." + r.DNSDomain, ""}, question{"short-name", s.name, ""})
	} else {
		for _, flow := range []string{"service", "name", "short-name", "node-port"} {
			r.done(Result{Node: node, Flow: flow, Status: Fail, Detail: s.unserved})
		}
	}
	for _, os := range []string{"linux", "windows"} {
		flow := "pod-to-" + os
		peer, status, why := r.peer(s, os, servers)
		if peer == nil {
			r.done(Result{Node: node, Flow: flow, Status: status, Detail: why})
			continue
		}
		list = append(list, question{flow, peer.state.IP, ""})
	}
	number := strings.TrimPrefix(s.name, "web-")
	var all sync.WaitGroup
	all.Go(func() { r.askPods(ctx, s, r.pod(s, "ask-"+number), list) })
	if itself := r.fromNode(s); len(itself) > 0 {
		pod := r.pod(s, "ask-node-"+number)
		pod.HostNetwork = true
		all.Go(func() { r.askPods(ctx, s, pod, itself) })
	}
	if s.unserved == "" {
		all.Go(func() { r.askOutside(ctx, s) })
	}
	all.Go(func() { r.throughKubelet(ctx, s) })
	all.Wait()
}

// fromNode is what is asked on the network of the node itself.
func (r *run) fromNode(s *server) []question {
	const port, service = "node-port-local", "service-from-node"
	node, url := s.node.Name, s.nodePort()
	switch {
	case s.os == "windows":
		const limit = "a known limit of Windows: "
		r.not(node, port, limit+"a node does not reach NodePorts on itself; others do")
		r.not(node, service, limit+"a node itself does not reach the addresses of services; its pods do")
		return nil
	case s.unserved != "":
		for _, flow := range []string{port, service} {
			r.done(Result{Node: node, Flow: flow, Status: Fail, Detail: s.unserved})
		}
		return nil
	case url == "":
		r.done(Result{Node: node, Flow: port, Status: Fail, Detail: noPort})
		return []question{{service, s.service.ClusterIP, ""}}
	}
	return []question{{port, "", url}, {service, s.service.ClusterIP, ""}}
}

// peer is a web server that runs on another node with an OS; nil: why there is none. A
// server of a target has a result of its own, that of a node which only helps has not.
func (r *run) peer(s *server, os string, servers []*server) (_ *server, status Status, why string) {
	status, why = NotPossible, fmt.Sprintf("there is no other %s node that takes pods", title(os))
	for _, o := range servers {
		switch {
		case o == s || o.os != os:
		case o.up:
			return o, Pass, ""
		case o.target:
			why = "the web server does not run on " + o.node.Name
		default:
			status, why = o.status, "the web server does not run on "+o.node.Name+": "+o.why
		}
	}
	return nil, status, why
}

func title(os string) string { return strings.ToUpper(os[:1]) + os[1:] }

// askPods runs a pod with a container for each question. A container is started again
// until it ends with 0: rules of services come a while after the service. That a policy
// keeps pods off the network of nodes is not a fault of the node.
func (r *run) askPods(ctx context.Context, s *server, pod kube.PodSpec, list []question) {
	pod.Once = true
	for _, q := range list {
		c := kube.Container{Name: q.flow, Image: s.image}
		c.Command, c.Args = asks(s.os, q)
		pod.Containers = append(pod.Containers, c)
	}
	began := time.Now()
	done := func(flow string, status Status, detail string) {
		if ctx.Err() == nil {
			r.done(Result{Node: s.node.Name, Flow: flow, Status: status, Detail: detail, Took: time.Since(began)})
		}
	}
	if err := r.API.RunPod(ctx, pod); err != nil {
		status := Fail
		if pod.HostNetwork && errors.Is(err, kube.ErrForbidden) {
			status = NotPossible
		}
		for _, q := range list {
			done(q.flow, status, err.Error())
		}
		return
	}
	if _, why := r.watch(ctx, s, list[0].flow, pod.Name, "the pod that asks runs", r.Start,
		func(p kube.PodState) bool { return p.Running }); why != "" {
		for _, q := range list {
			done(q.flow, Fail, "the pod that asks does not run: "+why)
		}
		return
	}
	began = time.Now()
	state, why := r.watch(ctx, s, list[0].flow, pod.Name, "all answer", r.Answer, func(p kube.PodState) bool {
		all := len(p.Containers) == len(list)
		for _, c := range p.Containers {
			if c.Done {
				done(c.Name, Pass, "")
			}
			all = all && c.Done
		}
		return all
	})
	for _, q := range list {
		i := slices.IndexFunc(state.Containers, func(c kube.ContainerState) bool { return c.Name == q.flow })
		switch {
		case i >= 0 && state.Containers[i].Failed:
			c := state.Containers[i]
			done(q.flow, Fail, fmt.Sprintf("%s did not answer: %s, after %d tries in %s", q.at(),
				exitCode(s.os, c.ExitCode), c.Tries, r.Answer))
		default: // one that is done was reported before
			done(q.flow, Fail, fmt.Sprintf("%s: %s", q.at(), why))
		}
	}
}

const noPort = "the Node has no address, or the service no port"

// nodePort is the URL of the service at its node; "" where there is noPort.
func (s *server) nodePort() string {
	if s.node.InternalIP == "" || len(s.service.NodePorts) == 0 {
		return ""
	}
	return "http://" + net.JoinHostPort(s.node.InternalIP, fmt.Sprint(s.service.NodePorts[0])) + "/"
}

// askOutside asks the node port from outside of the cluster.
func (r *run) askOutside(ctx context.Context, s *server) {
	flow := "node-port"
	url := s.nodePort()
	if url == "" {
		r.done(Result{Node: s.node.Name, Flow: flow, Status: Fail, Detail: noPort})
		return
	}
	r.try(ctx, s, flow, url+" from here", url, func(ctx context.Context) error { return r.Outside(ctx, url) })
}
