package host

import (
	"context"
	"net/netip"
	"strings"
	"time"
)

// NetworkReader observes adapters, routes, ports, the firewall and HNS, and probes endpoints from the machine.
type NetworkReader interface {
	// Adapters lists the network adapters that are up and have an address, sorted by
	// name; the loopback is left out.
	Adapters(ctx context.Context) ([]Adapter, error)
	// Routes lists the routes of IPv4 and IPv6 (Linux: the main table's), sorted as
	// SortRoutes does.
	Routes(ctx context.Context) ([]Route, error)
	// Listeners lists the TCP ports on which programs listen and the UDP ports that
	// are bound, sorted by protocol and port; each port once.
	Listeners(ctx context.Context) ([]Listener, error)
	// DynamicPorts returns the ephemeral ports of "tcp" or "udp". Machines on which they are kernel parameters
	// return ErrUnsupported, also in the calls on reserved ports.
	DynamicPorts(ctx context.Context, protocol string) (PortRange, error)
	// PortsReserved reports whether exactly this range is reserved (ReservePorts).
	PortsReserved(ctx context.Context, r PortRange) (bool, error)
	// PortExcluded reports whether the machine denies a port of "tcp" or "udp" to programs although none holds
	// it: it is in a range that Windows or its NAT has excluded. It binds the port for a moment to find out.
	PortExcluded(ctx context.Context, protocol string, port uint16) (bool, error)
	// FirewallRule reads an inbound or outbound rule by its unique name.
	FirewallRule(ctx context.Context, name string) (FirewallRule, error)
	// HNSNetwork reads a network of the Host Networking Service by name (case-insensitive).
	HNSNetwork(ctx context.Context, name string) (HNSNetwork, error)
	// HNSNetworks lists them all, sorted by name.
	HNSNetworks(ctx context.Context) ([]HNSNetwork, error)
	// HNSEndpoints lists the endpoints of all HNS networks, sorted by network, name and id. It is ErrUnsupported
	// if HNSNetworks is.
	HNSEndpoints(ctx context.Context) ([]HNSEndpoint, error)
	// HNSLoadBalancers lists the load balancers of HNS, which kube-proxy makes of Services, sorted by addresses, ports
	// and id. It is ErrUnsupported if HNSNetworks is.
	HNSLoadBalancers(ctx context.Context) ([]HNSLoadBalancer, error)
	// ProbeHTTP requests url (http only, loopback or the machine's own address) and returns the status code. An
	// error means that nothing answered.
	ProbeHTTP(ctx context.Context, url string) (status int, err error)
	// ProbePipe connects to a named pipe (`\\.\pipe\x`) or unix socket. With a grpcMethod
	// (`/runtime.v1.RuntimeService/Version`) it also makes that call with an empty message and expects
	// grpc-status 0.
	ProbePipe(ctx context.Context, address, grpcMethod string) error
	// ProbeAPI requests the version of an API server (https) from this machine, without credentials and without
	// trusting its certificate: the response shows whether it is reachable, its clock and its certificate. An
	// unknown name is ErrNameUnknown.
	ProbeAPI(ctx context.Context, url string) (APIAnswer, error)
	// ProbeTCP connects to address (HOST:PORT) from this machine and sends nothing. An unknown name is
	// ErrNameUnknown, a failed connection ErrNoAnswer; any other error means that it could not be tried.
	ProbeTCP(ctx context.Context, address string) error
}

// Network observes and changes routes, ports, the firewall and HNS.
type Network interface {
	NetworkReader

	// DeleteRoutes removes routes that equal those of Routes; absence is not an error. Windows returns
	// ErrUnsupported.
	DeleteRoutes(ctx context.Context, routes []Route) error
	// PutRoute adds a route, until the next boot. It is not an error if it is there; an interface that is not is
	// fs.ErrNotExist. Linux returns ErrUnsupported.
	PutRoute(ctx context.Context, r Route) error
	// SetDynamicPorts changes the ephemeral ports, now and after each boot. A range that is not ValidDynamic is
	// fs.ErrInvalid.
	SetDynamicPorts(ctx context.Context, r PortRange) error
	// ReservePorts excludes a range from the ephemeral ports, now and after each boot. It is not an error if it
	// is reserved already; ErrBusy if a program or another reservation has one of its ports.
	ReservePorts(ctx context.Context, r PortRange) error
	// ReleasePorts ends a reservation; absence is not an error.
	ReleasePorts(ctx context.Context, r PortRange) error
	// PutFirewallRule adds the rule or replaces the one of the same name.
	PutFirewallRule(ctx context.Context, r FirewallRule) error
	// DeleteFirewallRule removes a rule by name; absence is not an error.
	DeleteFirewallRule(ctx context.Context, name string) error
	// CreateHNSNetwork creates a network that survives reboots. A duplicate name (case-insensitive) is
	// fs.ErrExist. If the machine's adapter has no virtual switch one is created, which interrupts the machine's
	// connections for some seconds.
	CreateHNSNetwork(ctx context.Context, n HNSNetworkConfig) error
	// DeleteHNSNetwork removes a network by name (case-insensitive), with its endpoints and their load
	// balancers; absence is not an error.
	DeleteHNSNetwork(ctx context.Context, name string) error
	// DeleteHNSEndpoint removes an endpoint by its id, with the load balancers over it; absence is not an error.
	DeleteHNSEndpoint(ctx context.Context, id string) error
}

// FirewallRule is a rule of the Windows Firewall.
type FirewallRule struct {
	Name        string `json:"name" id:"true"` // unique key
	DisplayName string `json:"display_name,omitempty" present:"true"`
	Description string `json:"description,omitempty" present:"true"`
	Direction   string `json:"direction" default:"in" choices:"in,out" present:"true"`      // "in" or "out"
	Action      string `json:"action" default:"allow" choices:"allow,block" present:"true"` // "allow" or "block"
	Protocol    string `json:"protocol" choices:"tcp,udp" present:"true"`                   // "tcp" or "udp"
	// local ports, "10250" or "30000-32767"; empty = all
	Ports   string `json:"ports,omitempty" present:"true"`
	Program string `json:"program,omitempty" path:"true" present:"true"`
	// Remote are the addresses that the rule applies to, in the form of Addresses; "" = any.
	Remote  string `json:"remote,omitempty"`
	Enabled bool   `json:"enabled" default:"true" present:"true"`
	// Limits are what else limits the rule; no plan asks for any.
	Limits FirewallLimits `json:"limits,omitzero" lang:"-"`
}

// FirewallLimits are the fields of a firewall rule that rules of nodejoin do not have; each "" does not limit.
type FirewallLimits struct {
	Profiles    string `json:"profiles,omitempty"` // of networks: "domain,private"
	Service     string `json:"service,omitempty"`
	RemotePorts string `json:"remote_ports,omitempty"`
}

// String names the limits: "profiles domain".
func (l FirewallLimits) String() string {
	var out []string
	for _, f := range [][2]string{{"profiles", l.Profiles}, {"service", l.Service}, {"remote ports", l.RemotePorts}} {
		if f[1] != "" {
			out = append(out, f[0]+" "+f[1])
		}
	}
	return strings.Join(out, ", ")
}

// HNSNetwork is a network of the Windows Host Networking Service.
type HNSNetwork struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Type         string   `json:"type"`                    // "Overlay", "L2Bridge", "NAT" ...
	ManagementIP string   `json:"management_ip,omitempty"` // provider address; empty until HNS has attached
	Subnets      []string `json:"subnets,omitempty"`       // CIDRs
	VNI          uint32   `json:"vni,omitempty"`           // of the first subnet's VSID policy
	Port         uint16   `json:"port,omitempty"`          // VXLAN port of the network's policy, 0 = not set (4789)
}

// HNSNetworkConfig is an HNS network to create.
type HNSNetworkConfig struct {
	Name    string
	Type    string // "Overlay" or "L2Bridge"
	Subnet  string // CIDR
	Gateway string // address in Subnet
	VNI     uint32 // of the subnet, Overlay only
	Adapter string // name of the adapter for its switch; "" = HNS chooses one
}

// HNSEndpoint is the end of a container, or of a Service's backend, in an HNS network.
type HNSEndpoint struct {
	ID        string   `json:"id"`
	Name      string   `json:"name,omitempty"`
	Network   string   `json:"network"`             // HNSNetwork.ID
	Addresses []string `json:"addresses,omitempty"` // with the bits of their network
	MAC       string   `json:"mac,omitempty"`
	Remote    bool     `json:"remote,omitempty"` // it represents one on another machine
}

// HNSLoadBalancer distributes what comes to the address of a Service among endpoints.
type HNSLoadBalancer struct {
	ID        string   `json:"id"`
	Addresses []string `json:"addresses,omitempty"` // none: the node's own, for a NodePort
	Ports     []string `json:"ports,omitempty"`     // "tcp 80 to 8080": of the Service, and of its endpoints
	Source    string   `json:"source,omitempty"`    // source VIP
	Endpoints []string `json:"endpoints"`           // HNSEndpoint.ID
}

// Adapter is a network adapter of the machine.
type Adapter struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses,omitempty"` // IPv4 with the bits of its network, "192.0.2.10/24"
	Gateway   bool     `json:"gateway,omitempty"`   // a default route leads through it
	DHCP      bool     `json:"dhcp,omitempty"`      // its address is leased; false if that is unknown (Linux)
}

// Prefixes are the addresses of the adapter that can be parsed.
func (a Adapter) Prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, text := range a.Addresses {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Route is a way of the machine's packets.
type Route struct {
	Destination string `json:"destination"`         // "10.244.1.0/24"; "0.0.0.0/0", "::/0" = the default
	Gateway     string `json:"gateway,omitempty"`   // "" = the destination is on the link
	Interface   string `json:"interface,omitempty"` // "" = packets are dropped (Linux: blackhole and the like)
	Metric      uint32 `json:"metric,omitempty"`    // the lowest wins; Windows adds that of the interface
}

// Listener is a port that a program of the machine holds.
type Listener struct {
	Protocol string `json:"protocol"` // "tcp" or "udp"
	Port     uint16 `json:"port"`
	PID      int    `json:"pid,omitempty"` // of one that holds it; 0 = not known
}

// APIAnswer is the response of an API server.
type APIAnswer struct {
	Date  time.Time `json:"date,omitzero"` // its clock, in whole seconds; zero = not given
	Clock time.Time `json:"clock"`         // the machine's clock at that moment
	// Certificates are those that it presented, in DER, its own first; none = unknown.
	Certificates [][]byte `json:"certificates,omitempty"`
}
