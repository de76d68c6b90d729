package kinds

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

var servingCertificateKind = steps.Kind{Name: "serving_certificate", Place: steps.OnCluster, Trusts: true,
	Timeout: 2 * time.Minute, Doc: "the kubelet's request for a serving certificate is approved if it names only the " +
		"node itself",
	New: func() any { return &ServingCertificate{} }}

// ServingCertificate approves the newest serving-certificate request of the node's
// kubelet (serverTLSBootstrap), which no controller of Kubernetes approves: only who
// knows the machine can tell that its names and addresses are its own. A request that
// asks for others is left alone; the step then waits for a better one, and says why.
// Without Wait, a node that has no request is in order.
type ServingCertificate struct {
	Addresses []string `json:"addresses" doc:"IP addresses that the certificate may be for"`
	Names     []string `json:"names,omitempty" doc:"DNS names that it may be for, besides the node's name"`
	Wait      bool     `json:"wait,omitempty" doc:"wait for a request where there is none"`
}

// Usages that a serving certificate must and may ask for (kubernetes.io, "Certificates
// and Certificate Signing Requests", signer kubernetes.io/kubelet-serving).
var (
	servingUsagesMust = []string{"digital signature", "server auth"}
	servingUsagesMay  = []string{"key encipherment"}
)

// beyond says what of a request is not the node's, "" if it may be approved.
func (s *ServingCertificate) beyond(q kube.ServingRequest, node string) string {
	user := "system:node:" + node
	missing := slices.ContainsFunc(servingUsagesMust, func(u string) bool { return !slices.Contains(q.Usages, u) })
	other := slices.IndexFunc(q.Usages, func(u string) bool {
		return !slices.Contains(servingUsagesMust, u) && !slices.Contains(servingUsagesMay, u)
	})
	name := slices.IndexFunc(q.DNSNames, func(n string) bool { return n != node && !slices.Contains(s.Names, n) })
	ip := slices.IndexFunc(q.IPs, func(ip string) bool { return !slices.Contains(s.Addresses, ip) })
	switch {
	case q.Requestor != user:
		return "it was made by " + q.Requestor
	case !slices.Contains(q.Groups, "system:nodes"):
		return "who made it is not in the group system:nodes"
	case q.CommonName != user || !slices.Equal(q.Organization, []string{"system:nodes"}):
		return fmt.Sprintf("it is for %q of %q, not for %s of system:nodes", q.CommonName,
			strings.Join(q.Organization, ", "), user)
	case missing:
		return "it does not ask for the usages " + strings.Join(servingUsagesMust, " and ")
	case other >= 0:
		return fmt.Sprintf("it asks for the usage %q", q.Usages[other])
	case len(q.Others) > 0:
		return fmt.Sprintf("it asks for %q, which is neither a DNS name nor an IP address", q.Others[0])
	case name >= 0:
		return fmt.Sprintf("it asks for the name %q, which is not the node's", q.DNSNames[name])
	case ip >= 0:
		return fmt.Sprintf("it asks for the address %s; the node's is %s", q.IPs[ip], strings.Join(s.Addresses, ", "))
	case len(q.DNSNames)+len(q.IPs) == 0:
		return "it asks for no name and no address"
	}
	return ""
}

// look judges the newest request: its name where it is to be approved, or a condition.
func (s *ServingCertificate) look(requests []kube.ServingRequest, node string) (approve string, out condition) {
	if len(requests) == 0 {
		return "", condition{reached: !s.Wait, observed: "the kubelet has made no request for a serving certificate",
			remedy: "look at the kubelet's log on the machine"}
	}
	q := requests[0]
	remedy := fmt.Sprintf("look at it with `kubectl describe csr %s`; `kubectl delete csr %s` lets the kubelet make "+
		"another", q.Name, q.Name)
	if q.Denied {
		return "", condition{observed: fmt.Sprintf("the certificate request %s was denied%s", q.Name, suffix(q.Message)),
			remedy: remedy}
	}
	if q.Approved {
		return "", condition{reached: true}
	}
	if why := s.beyond(q, node); why != "" {
		return "", condition{observed: fmt.Sprintf("the certificate request %s is left alone: %s", q.Name, why),
			remedy: remedy}
	}
	return q.Name, condition{}
}

// judge is look, and holds the addresses of a request that is to be approved against those of everything else in
// the cluster: whatever the plan or a connection says, a kubelet's certificate is never for one of these.
func (s *ServingCertificate) judge(
	ctx context.Context, r kube.Reader, requests []kube.ServingRequest, node string,
) (approve string, out condition, err error) {
	approve, out = s.look(requests, node)
	if approve == "" || len(requests[0].IPs) == 0 {
		return approve, out, nil
	}
	others, err := addressesOfOthers(ctx, r, node)
	if err != nil {
		return "", condition{}, err
	}
	for _, ip := range requests[0].IPs {
		if whose := others[ip]; whose != "" {
			return "", condition{observed: fmt.Sprintf(
				"the certificate request %s is left alone: it asks for the address %s, which "+
					"is that of %s", approve, ip, whose),
				remedy: "look at the node's management_ip and connection in the plan, and at who is at work on the machine"}, nil
		}
	}
	return approve, out, nil
}

// addressesOfOthers are the addresses in the cluster that are not the node's, with whose they are.
func addressesOfOthers(ctx context.Context, r kube.Reader, node string) (map[string]string, error) {
	out := map[string]string{}
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.Name != node {
			out[n.InternalIP] = "the Node " + n.Name
		}
	}
	services, err := r.Services(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range services {
		out[s.ClusterIP] = "the Service " + s.String()
	}
	info, err := r.Info(ctx)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(info.Server); err == nil {
		out[u.Hostname()] = "the API server"
	}
	return out, nil
}

func (s *ServingCertificate) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	if len(s.Addresses) == 0 {
		return steps.Change{}, steps.Invalid("serving_certificate needs the addresses of the node")
	}
	requests, err := r.ServingRequests(ctx, e.Node)
	if err != nil {
		return steps.Change{}, err
	}
	name, seen, err := s.judge(ctx, r, requests, e.Node)
	switch {
	case err != nil:
		return steps.Change{}, err
	case name != "":
		return steps.Change{Action: steps.ActionUpdate,
			Reason: fmt.Sprintf("the certificate request %s is pending", name)}, nil
	case seen.reached:
		return steps.Change{}, nil
	case slices.ContainsFunc(s.Addresses, steps.HasRef):
		return steps.Change{Action: steps.ActionUnknown}, nil
	case len(requests) == 0:
		return steps.Change{Action: steps.ActionUnknown, Reason: seen.observed + " yet"}, nil
	}
	return steps.Change{Action: steps.ActionWait, Reason: seen.observed}, nil
}

func (s *ServingCertificate) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (
	steps.Outcome, error) {
	return steps.Outcome{}, await(ctx, e, "no serving certificate could be approved in time",
		func(ctx context.Context) (condition, error) {
			requests, err := a.ServingRequests(ctx, e.Node)
			if err != nil {
				return condition{}, err
			}
			name, seen, err := s.judge(ctx, a, requests, e.Node)
			if name == "" || err != nil {
				return seen, err
			}
			return condition{reached: true}, a.ApproveRequest(ctx, name)
		})
}
