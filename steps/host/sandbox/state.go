package sandbox

import (
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// stateDir holds what is not a file of the machine. No path of the machine leads there.
const stateDir = ".sandbox"

// state is everything about the machine that is not a file. On Windows, where names are case-insensitive, the
// keys of maps are in lower case.
type state struct {
	BootTime time.Time `json:"boot_time,omitzero"`
	// the registry has the values of a fresh machine
	Factory bool `json:"factory,omitempty"`
	LastPID int  `json:"last_pid,omitempty"`
	// by key of the path; only those that differ from the default
	Access   map[string]host.Access                   `json:"access,omitempty"`
	Services map[string]*service                      `json:"services,omitempty"`
	Registry map[string]map[string]host.RegistryValue `json:"registry,omitempty"`
	Env      map[string]string                        `json:"env,omitempty"`
	Firewall map[string]host.FirewallRule             `json:"firewall,omitempty"`
	Networks map[string]host.HNSNetwork               `json:"networks,omitempty"`
	// keys of networks that survive reboots
	Lasting []string `json:"lasting,omitempty"`
	// the adapter that has a virtual switch; "" = none
	Switch string `json:"switch,omitempty"`
	// when the network that created the switch, by key, gets its management address
	Due map[string]time.Time `json:"due,omitempty"`
	// by protocol; only those that differ from a fresh machine's
	Dynamic  map[string]host.PortRange    `json:"dynamic_ports,omitempty"`
	Reserved map[string]host.PortRange    `json:"reserved_ports,omitempty"` // by their text
	Sysctls  map[string]string            `json:"sysctls,omitempty"`        // only those that differ from boot
	Links    []string                     `json:"links,omitempty"`          // interfaces that programs have created
	Chains   []host.FilterChain           `json:"chains,omitempty"`         // that programs have made
	Tables   []host.FilterTable           `json:"tables,omitempty"`         // of nftables, that programs have made
	Routes   []host.Route                 `json:"routes,omitempty"`         // that programs have made
	Modules  []string                     `json:"modules,omitempty"`        // loaded
	Trusted  []string                     `json:"trusted,omitempty"`        // sha256 of authorities
	Features map[string]host.FeatureState `json:"features,omitempty"`       // unlike a fresh machine's
	HostName string                       `json:"host_name,omitempty"`      // "" = as it came
	NextName string                       `json:"next_name,omitempty"`      // after a boot; "" = HostName
	Pods     []podRun                     `json:"pods,omitempty"`
	Pulled   []host.Image                 `json:"pulled,omitempty"` // images that containerd has pulled
	// HNS endpoints of pods; those of the quirks are always there
	Endpoints []host.HNSEndpoint `json:"endpoints,omitempty"`
	Noted     []string           `json:"noted,omitempty"` // what needs a reboot
}

// service is a registered service and its last run.
type service struct {
	host.Service
	Ran   []string `json:"ran,omitempty"`    // the command it was started with; empty when stopped
	InUse []string `json:"in_use,omitempty"` // keys of the program files that run
}

// podRun is a pod and the program that holds its containers, which outlives the runtime: a containerd shim.
type podRun struct {
	host.Pod
	Shim string `json:"shim"` // key of its file
}

func (s *state) init() {
	if s.Access == nil {
		s.Access = map[string]host.Access{}
	}
	if s.Services == nil {
		s.Services = map[string]*service{}
	}
	if s.Registry == nil {
		s.Registry = map[string]map[string]host.RegistryValue{}
	}
	if s.Env == nil {
		s.Env = map[string]string{}
	}
	if s.Firewall == nil {
		s.Firewall = map[string]host.FirewallRule{}
	}
	if s.Dynamic == nil {
		s.Dynamic = map[string]host.PortRange{}
	}
	if s.Reserved == nil {
		s.Reserved = map[string]host.PortRange{}
	}
	if s.Sysctls == nil {
		s.Sysctls = map[string]string{}
	}
	if s.Networks == nil {
		s.Networks = map[string]host.HNSNetwork{}
	}
}

func (s *state) tables() map[string]journaled { return nil }

func (s *state) rest() any { return s }

func (s *state) inUse(key string) bool {
	for _, svc := range s.Services {
		if slices.Contains(svc.InUse, key) {
			return true
		}
	}
	return slices.ContainsFunc(s.Pods, func(p podRun) bool { return p.Shim == key })
}

func (s *state) inUseBelow(key string) bool {
	for _, svc := range s.Services {
		if slices.ContainsFunc(svc.InUse, func(k string) bool { return strings.HasPrefix(k, key+"/") }) {
			return true
		}
	}
	return slices.ContainsFunc(s.Pods, func(p podRun) bool { return strings.HasPrefix(p.Shim, key+"/") })
}
