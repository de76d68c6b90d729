package verify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

// said is what the command prints that is run in the web server's container.
const said = "nodejoin"

// says is a command that prints said and ends.
func says(os string) []string {
	if os == "windows" {
		return []string{"cmd.exe", "/c", "echo", said}
	}
	return []string{"echo", said}
}

// usage is a metric that each kubelet has for its node (kubernetes
// pkg/kubelet/metrics/collectors/resource_metrics.go).
const usage = "node_cpu_usage_seconds_total"

// throughKubelet asks what kubectl and the autoscalers ask: the API server passes it on to the kubelet of the node.
func (r *run) throughKubelet(ctx context.Context, s *server) {
	r.try(ctx, s, "logs", "the kubelet", "", func(ctx context.Context) error {
		_, err := r.API.PodLog(ctx, r.ns, s.name)
		return err
	})
	r.try(ctx, s, "exec", "the container", "", func(ctx context.Context) error {
		out, err := r.API.Exec(ctx, r.ns, s.name, says(s.os))
		if err == nil && strings.TrimSpace(out) != said {
			err = fmt.Errorf("the command prints %q, not %q", out, said)
		}
		return err
	})
	r.try(ctx, s, "port-forward", "the web server", "", func(ctx context.Context) error {
		return r.API.Forward(ctx, r.ns, s.name, webPort)
	})
	r.try(ctx, s, "metrics", "the kubelet", "", func(ctx context.Context) error {
		text, err := r.API.NodeMetrics(ctx, s.node.Name)
		if err == nil && !strings.Contains(text, usage) {
			err = errors.New("its metrics lack " + usage)
		}
		return err
	})
}

// try asks until it is answered, at most for the time of an answer. What the cluster does not let the user do
// cannot be tried. detail is that of a success.
func (r *run) try(ctx context.Context, s *server, flow, what, detail string, ask func(context.Context) error) {
	began := time.Now()
	timed, cancel := context.WithTimeout(ctx, r.Answer)
	defer cancel()
	var last error
	err := wait.Until(timed, lookMost, func() (bool, error) {
		last = ask(timed)
		if last == nil || errors.Is(last, kube.ErrForbidden) {
			return true, nil
		}
		if timed.Err() == nil {
			r.Reporter.Waits(s.node.Name, flow, "waits until "+what+" answers; so far: "+last.Error())
		}
		return false, nil
	})
	res := Result{Node: s.node.Name, Flow: flow, Status: Pass, Detail: detail, Took: time.Since(began)}
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		res.Status, res.Detail = Fail, fmt.Sprintf("%s did not answer in %s: %v", what, r.Answer, last)
	case last != nil:
		res.Status, res.Detail = NotPossible, last.Error()
	}
	r.done(res)
}

// podsName is the service that gives the pods of the web servers names of their own.
const podsName = "pods"

// podName is the question for a web server by the name of its pod, of another node where there is one.
func (r *run) podName(s *server, servers []*server) question {
	to := s
	for _, o := range servers {
		if o != s && o.up {
			to = o
			break
		}
	}
	return question{"pod-name", to.name + "." + podsName + "." + r.ns + ".svc." + r.DNSDomain, ""}
}

// outboundName is the question for what is outside by a name; nil if only an address is known.
func (r *run) outboundName(node string) []question {
	u, err := url.Parse(r.Outbound)
	if err != nil || net.ParseIP(u.Hostname()) != nil {
		r.not(node, "outbound-name", "only an address outside of the cluster is known: give --outbound https://NAME/")
		return nil
	}
	return []question{{"outbound-name", "", r.Outbound}}
}
