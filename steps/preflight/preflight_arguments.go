package preflight

// Preflight checks the machine for the findings of the table, or for those that Only names, and changes
// nothing. Its Change has every finding. One of severity error that is not waived fails the check, so the
// machine is left as it is. A check that could not be made is a finding too, never a pass. Outputs: subnet,
// the network of the node's address.
//
// A check whose argument is missing is left out.
type Preflight struct {
	OS           string            `json:"os,omitempty" doc:"\"windows\" or \"linux\"" choices:"windows,linux"`
	Arch         string            `json:"arch,omitempty" doc:"\"amd64\" or \"arm64\"" choices:"amd64,arm64"`
	MinBuild     string            `json:"min_build,omitempty" doc:"lowest Windows build, as 10.0.17763" os:"windows"`
	MinRevisions map[string]int    `json:"min_revisions,omitempty" doc:"lowest update revision by build" os:"windows"`
	BadRevisions map[string]string `json:"bad_revisions,omitempty" doc:"fault by build and revisions" os:"windows"`

	Path    string `json:"path,omitempty" doc:"volume of min_free" path:"true" with:"min_free" why:"min_free is missing"`
	MinFree string `json:"min_free,omitempty" doc:"space wanted on path's volume (default nodejoin's), as 2GiB"`

	Address     string   `json:"address,omitempty" doc:"the node's IPv4 address; an adapter must have it"`
	Address6    string   `json:"address6,omitempty" doc:"the node's IPv6 address, likewise"`
	Interface   string   `json:"interface,omitempty" doc:"the adapter that must have the node's IPv4 address"`
	APIServer   string   `json:"api_server,omitempty" doc:"URL of the API server that the machine must reach"`
	CA          string   `json:"ca,omitempty" doc:"certificates (PEM) of the cluster's authority"`
	PodCIDR     string   `json:"pod_cidr,omitempty" doc:"pod network, or two; must not overlap the machine's"`
	ServiceCIDR string   `json:"service_cidr,omitempty" doc:"service network, likewise"`
	Placeholder string   `json:"placeholder,omitempty" doc:"network of the placeholder HNS network, likewise"`
	Services    []string `json:"services,omitempty" doc:"services that only nodejoin may have registered"`
	Required    []string `json:"required,omitempty" doc:"services that must run, whoever registered them"`
	Ports       []string `json:"ports,omitempty" doc:"ports of those services, as \"tcp/10250\""`
	HNSNetworks []string `json:"hns_networks,omitempty" doc:"HNS networks that are the node's own" os:"windows"`
	NoSwap      bool     `json:"no_swap,omitempty" doc:"Linux: swap must be off" os:"linux"`
	CgroupV2    bool     `json:"cgroup_v2,omitempty" doc:"Linux: cgroup v2 must be in use" os:"linux"`
	Features    []string `json:"features,omitempty" doc:"features to turn on where no reboot is allowed"`
	Programs    []string `json:"programs,omitempty" doc:"Linux: names of programs that must exist" os:"linux"`
	Leftovers   []string `json:"leftovers,omitempty" doc:"files and folders that an earlier node leaves"`
	Guarded     []string `json:"guarded,omitempty" doc:"Windows: folders to close to non-administrators"`
	Proxy       bool     `json:"proxy,omitempty" doc:"the plan sets the proxy"`
	Proxies     []string `json:"proxies,omitempty" doc:"HOST:PORT of the plan's proxies that may be shown"`
	Named       bool     `json:"named,omitempty" doc:"the plan sets the machine's name"`
	StaticKept  bool     `json:"static_kept,omitempty" doc:"the plan keeps a static address in HNS" os:"windows"`
	FirewallOff bool     `json:"firewall_off,omitempty" doc:"Windows: the plan makes no firewall rules" os:"windows"`
	Switch      bool     `json:"switch,omitempty" doc:"Windows: the plan makes a virtual switch" os:"windows"`
	SSHPort     int      `json:"ssh_port,omitempty" doc:"Windows: port by which SSH reaches it" os:"windows"`
	Reboots     bool     `json:"reboots,omitempty" doc:"the plan may reboot the machine" os:"windows"`
	Only        []string `json:"only,omitempty" doc:"ids of the findings to check for; default all"`
	Waive       []string `json:"waive,omitempty" doc:"ids of findings that do not count" findings:"true"`
}
