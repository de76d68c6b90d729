package host

import "time"

// FirewallRule is a rule of the Windows Firewall.
type FirewallRule struct {
	Name        string `json:"name"` // unique key
	DisplayName string `json:"display_name,omitempty"`
	Description string `json:"description,omitempty"`
	Direction   string `json:"direction"`       // "in" or "out"
	Action      string `json:"action"`          // "allow" or "block"
	Protocol    string `json:"protocol"`        // "tcp" or "udp"
	Ports       string `json:"ports,omitempty"` // local ports, "10250" or "30000-32767"; empty = all
	Program     string `json:"program,omitempty"`
	// Remote are the addresses that the rule is for, in the form of Addresses; "" = any.
	Remote  string `json:"remote,omitempty"`
	Enabled bool   `json:"enabled"`
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

// HNSNetworkConfig is a network of HNS that is to be made.
type HNSNetworkConfig struct {
	Name    string
	Type    string // "Overlay" or "L2Bridge"
	Subnet  string // CIDR
	Gateway string // address in Subnet
	VNI     uint32 // of the subnet, Overlay only
	Adapter string // name of the adapter that its switch is made on; "" = HNS picks one
}

// HNSEndpoint is what a container, or a backend of a Service, has in a network of HNS.
type HNSEndpoint struct {
	ID        string   `json:"id"`
	Name      string   `json:"name,omitempty"`
	Network   string   `json:"network"`             // HNSNetwork.ID
	Addresses []string `json:"addresses,omitempty"` // with the bits of their network
	MAC       string   `json:"mac,omitempty"`
	Remote    bool     `json:"remote,omitempty"` // it stands for one on another machine
}

// Adapter is a network adapter of the machine.
type Adapter struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses,omitempty"` // IPv4 with the bits of its network, "192.0.2.10/24"
	Gateway   bool     `json:"gateway,omitempty"`   // a default route leads through it
	DHCP      bool     `json:"dhcp,omitempty"`      // its address is leased; false where that is not known (Linux)
}

// Route is a way of the machine's packets.
type Route struct {
	Destination string `json:"destination"`         // "10.244.1.0/24"; "0.0.0.0/0", "::/0" = the default
	Gateway     string `json:"gateway,omitempty"`   // "" = the destination is on the link
	Interface   string `json:"interface,omitempty"` // "" = what goes there is dropped (Linux: blackhole and the like)
	Metric      uint32 `json:"metric,omitempty"`    // the least counts; Windows adds that of the interface
}

// Listener is a port that a program of the machine holds.
type Listener struct {
	Protocol string `json:"protocol"` // "tcp" or "udp"
	Port     uint16 `json:"port"`
	PID      int    `json:"pid,omitempty"` // of one that holds it; 0 = not known
}

// APIAnswer is what an API server answered.
type APIAnswer struct {
	Date  time.Time `json:"date,omitzero"` // its clock, in whole seconds; zero = it did not say
	Clock time.Time `json:"clock"`         // the machine's clock at that moment
	// Certificates are those that it showed, in DER, its own first; none = not known.
	Certificates [][]byte `json:"certificates,omitempty"`
}
