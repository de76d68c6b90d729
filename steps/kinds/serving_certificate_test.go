package kinds

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

func servingRequest(change func(*kube.ServingRequest)) kube.ServingRequest {
	q := kube.ServingRequest{SigningRequest: kube.SigningRequest{Name: "csr-1", Requestor: "system:node:win-1"},
		Groups: []string{"system:nodes", "system:authenticated"},
		Usages: []string{"digital signature", "server auth"}, CommonName: "system:node:win-1",
		Organization: []string{"system:nodes"},
		DNSNames:     []string{"win-1"}, IPs: []string{"192.0.2.1"}}
	if change != nil {
		change(&q)
	}
	return q
}

// servingCluster has the given requests from a certain age on.
type servingCluster struct {
	kube.API
	start    time.Time
	requests func(age time.Duration) []kube.ServingRequest
	approved []string
}

func (s *servingCluster) ServingRequests(context.Context, string) ([]kube.ServingRequest, error) {
	out := s.requests(time.Since(s.start))
	for i := range out {
		for _, name := range s.approved {
			out[i].Approved = out[i].Approved || out[i].Name == name
		}
	}
	return out, nil
}

func (s *servingCluster) Nodes(context.Context) ([]kube.Node, error) {
	return []kube.Node{{Name: "win-1", InternalIP: "192.0.2.1"}, {Name: "win-2", InternalIP: "192.0.2.22"}}, nil
}

func (s *servingCluster) Services(context.Context) ([]kube.Service, error) {
	return []kube.Service{{Namespace: "default", Name: "kubernetes", ClusterIP: "10.96.0.1"}}, nil
}

func (s *servingCluster) Info(context.Context) (kube.Info, error) {
	return kube.Info{Server: "https://192.0.2.10:6443"}, nil
}

// TestServingCertificateOfOthers: a certificate for an address of the API server, a Service or another Node is not
// approved, even if the plan says that the address is the node's.
func TestServingCertificateOfOthers(t *testing.T) {
	for ip, whose := range map[string]string{"192.0.2.10": "that of the API server",
		"10.96.0.1": "Service default/kubernetes", "192.0.2.22": "Node win-2"} {
		s := &servingCluster{requests: func(time.Duration) []kube.ServingRequest {
			return []kube.ServingRequest{servingRequest(func(q *kube.ServingRequest) { q.IPs = []string{"192.0.2.1", ip} })}
		}}
		step := &ServingCertificate{Addresses: []string{"192.0.2.1", ip}}
		c, err := step.Check(t.Context(), s, &steps.Env{Node: "win-1"})
		if err != nil || c.Action != steps.ActionWait || !strings.Contains(c.Reason, whose) {
			t.Errorf("%s: %+v, %v", ip, c, err)
		}
	}
}

func (s *servingCluster) ApproveRequest(_ context.Context, name string) error {
	s.approved = append(s.approved, name)
	return nil
}

// TestServingCertificateOfNode: a request for the node's own names and addresses is approved, and nothing else.
func TestServingCertificateOfNode(t *testing.T) {
	for _, c := range []struct {
		why    string // "" = approved
		change func(*kube.ServingRequest)
	}{
		{"", nil},
		{"", func(q *kube.ServingRequest) { q.Usages = append(q.Usages, "key encipherment") }},
		{"", func(q *kube.ServingRequest) { q.DNSNames = append(q.DNSNames, "win-1.example.com") }},
		{"", func(q *kube.ServingRequest) { q.IPs = nil }},
		{"made by jane", func(q *kube.ServingRequest) { q.Requestor = "jane" }},
		{"made by system:node:win-2", func(q *kube.ServingRequest) { q.Requestor = "system:node:win-2" }},
		{"not in the group", func(q *kube.ServingRequest) { q.Groups = nil }},
		{"it is for", func(q *kube.ServingRequest) { q.CommonName = "system:node:win-2" }},
		{"it is for", func(q *kube.ServingRequest) { q.Organization = []string{"system:nodes", "system:masters"} }},
		{"does not ask for the usages", func(q *kube.ServingRequest) { q.Usages = []string{"server auth"} }},
		{`usage "client auth"`, func(q *kube.ServingRequest) { q.Usages = append(q.Usages, "client auth") }},
		{"neither a DNS name nor", func(q *kube.ServingRequest) { q.Others = []string{"spiffe://x"} }},
		{`the name "kubernetes.default"`, func(q *kube.ServingRequest) {
			q.DNSNames = append(q.DNSNames, "kubernetes.default")
		}},
		{"the address 192.0.2.9", func(q *kube.ServingRequest) { q.IPs = append(q.IPs, "192.0.2.9") }},
		{"no name and no address", func(q *kube.ServingRequest) { q.IPs, q.DNSNames = nil, nil }},
		{"was denied", func(q *kube.ServingRequest) { q.Denied = true }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &servingCluster{start: time.Now(), requests: func(time.Duration) []kube.ServingRequest {
				return []kube.ServingRequest{servingRequest(c.change)}
			}}
			step := &ServingCertificate{Addresses: []string{"192.0.2.1"}, Names: []string{"win-1.example.com"}}
			e := &steps.Env{Node: "win-1", Progress: func(event.StepProgress) {}}
			before, err := step.Check(t.Context(), s, e)
			if err != nil || before.NoOp() || c.why != "" && !strings.Contains(before.Reason, c.why) {
				t.Errorf("%q: check before: %+v, %v", c.why, before, err)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute,
				&steps.Error{Code: steps.CodeTimeout, Summary: "not done in time"})
			defer cancel()
			_, err = step.Apply(ctx, s, e, before)
			if c.why == "" {
				after, checkErr := step.Check(t.Context(), s, e)
				if err != nil || checkErr != nil || !after.NoOp() || len(s.approved) != 1 {
					t.Errorf("approved %v, %v; check after: %+v, %v", s.approved, err, after, checkErr)
				}
				return
			}
			var se *steps.Error
			if !errors.As(err, &se) || se.Code != steps.CodeTimeout || !strings.Contains(se.Detail, c.why) ||
				!strings.Contains(se.Remedy, "kubectl delete csr csr-1") || len(s.approved) != 0 {
				t.Errorf("%q: approved %v, error %#v", c.why, s.approved, err)
			}
		})
	}
}

// TestServingCertificateWaits: without a request, a step with wait waits and another has no changes. The newest
// request counts.
func TestServingCertificateWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servingCluster{start: time.Now(), requests: func(age time.Duration) []kube.ServingRequest {
			if age < 5*time.Second {
				return nil
			}
			older := servingRequest(func(q *kube.ServingRequest) { q.Name, q.IPs = "csr-0", []string{"192.0.2.9"} })
			return []kube.ServingRequest{servingRequest(nil), older}
		}}
		e := &steps.Env{Node: "win-1", Progress: func(event.StepProgress) {}}
		step := &ServingCertificate{Addresses: []string{"192.0.2.1"}}
		if c, err := step.Check(t.Context(), s, e); err != nil || !c.NoOp() {
			t.Errorf("without wait: %+v, %v", c, err)
		}
		step.Wait = true
		c, err := step.Check(t.Context(), s, e)
		if err != nil || c.Action != steps.ActionUnknown {
			t.Errorf("with wait: %+v, %v", c, err)
		}
		if _, err := step.Apply(t.Context(), s, e, c); err != nil || len(s.approved) != 1 || s.approved[0] != "csr-1" {
			t.Errorf("approved %v, %v", s.approved, err)
		}
	})
}
