package transport_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

// certificates is a cluster where the kubelet of each node has requested a certificate.
type certificates struct {
	kube.API
	ips []string // the addresses in the requests

	mu       sync.Mutex
	approved []string
}

// Close implements kube.API.
func (c *certificates) Close() {}

func (c *certificates) Info(context.Context) (kube.Info, error) {
	return kube.Info{Server: "https://10.0.0.10:6443"}, nil
}
func (c *certificates) Node(context.Context, string) (kube.Node, error) {
	return kube.Node{}, fs.ErrNotExist
}
func (c *certificates) Nodes(context.Context) ([]kube.Node, error)       { return nil, nil }
func (c *certificates) Services(context.Context) ([]kube.Service, error) { return nil, nil }
func (c *certificates) SetAnnotations(context.Context, string, map[string]string, []string) error {
	return nil
}

func (c *certificates) ServingRequests(_ context.Context, node string) ([]kube.ServingRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []kube.ServingRequest{{SigningRequest: kube.SigningRequest{Name: "csr-" + node,
		Requestor: "system:node:" + node, Approved: slices.Contains(c.approved, "csr-"+node)},
		Groups: []string{"system:nodes"}, Usages: []string{"digital signature", "server auth"},
		CommonName: "system:node:" + node, Organization: []string{"system:nodes"},
		DNSNames: []string{node}, IPs: c.ips}}, nil
}

func (c *certificates) ApproveRequest(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.approved = append(c.approved, name)
	return nil
}

// at is a connection to a machine at an address.
type at struct {
	transport.Conn
	ip string
}

func (a at) Address(host.Facts) string { return a.ip }

// TestServingCertificateByConnection: the plan and the connection decide which addresses a kubelet's certificate may
// have. What the machine reports does not count.
func TestServingCertificateByConnection(t *testing.T) {
	self := []string{steps.Ref("fact.management_ip")}
	for name, c := range map[string]struct {
		says, reached  string // the machine's address: its own report, and the connection's
		asks           string // the address that the kubelet requests
		addresses      []string
		names          []string
		approved       bool
		want, wantHelp string
	}{
		"its own, by the connection": {says: "192.0.2.1", reached: "192.0.2.1", asks: "192.0.2.1",
			addresses: self, approved: true},
		"its own, whatever it says": {says: "10.0.0.10", reached: "192.0.2.1", asks: "192.0.2.1",
			addresses: self, approved: true},
		"its own, by the plan": {says: "10.0.0.10", reached: "198.51.100.1", asks: "192.0.2.1",
			addresses: []string{"192.0.2.1"}, approved: true},
		"the API server's, on its word": {says: "10.0.0.10", reached: "192.0.2.1", asks: "10.0.0.10",
			addresses: self, want: "asks for the address 10.0.0.10"},
		"any other, on its word": {says: "192.0.2.9", reached: "192.0.2.1", asks: "192.0.2.9",
			addresses: self, want: "asks for the address 192.0.2.9"},
		"any other, which nobody knows": {says: "192.0.2.9", asks: "192.0.2.9", addresses: self,
			want: "address is not known", wantHelp: "management_ip in the plan"},
		"the API server's, which the plan says": {says: "192.0.2.1", reached: "192.0.2.1", asks: "10.0.0.10",
			addresses: []string{"10.0.0.10"}, want: "that of the API server"},
		"a name, on its word": {says: "192.0.2.1", reached: "192.0.2.1", asks: "192.0.2.1", addresses: self,
			names: []string{steps.Ref("fact.hostname")},
			want:  "address is not known", wantHelp: "management_ip in the plan"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &hostileRun{t: t, dir: t.TempDir(), lie: lie{on: "check", reply: fact("management_ip", c.says)}}
			dial := transport.Hostile(t, r.serve, nil)
			cluster := &certificates{ips: []string{c.asks}}
			node := plan.Node{Name: "evil", OS: "linux", Steps: []steps.Spec{
				{ID: "d0", Kind: "directory", Args: steps.MustArgs(&kinds.Directory{Path: filepath.Join(r.dir, "d0")})},
				{ID: "serving", Kind: "serving_certificate",
					Args:    steps.MustArgs(&kinds.ServingCertificate{Addresses: c.addresses, Names: c.names}),
					Timeout: 300 * time.Millisecond},
			}}
			if err := os.Mkdir(filepath.Join(r.dir, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
			s := engine.New(&plan.Compiled{Nodes: []plan.Node{node}}, engine.Options{
				Emit:    func(event.Event) {},
				Cluster: func(context.Context) (kube.API, error) { return cluster, nil },
				Connect: func(ctx context.Context, _ plan.Node) (transport.Conn, error) {
					conn, err := dial(ctx)
					return at{conn, c.reached}, err
				},
			})
			defer s.Close()
			if err := s.Check(t.Context()).Hosts[0].Err; err != nil {
				t.Fatal(err)
			}
			err := s.Apply(t.Context()).Hosts[0].Err
			if c.approved != (len(cluster.approved) == 1) || c.approved != (err == nil) {
				t.Fatalf("approved %q, %v", cluster.approved, err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(steps.AsError(err).Remedy,
				c.wantHelp)) {
				t.Errorf("%v; %s", err, steps.AsError(err).Remedy)
			}
		})
	}
}
