package hns

import (
	"fmt"
	"maps"
	"net"
	"strings"
	"time"
)

// Results of calls; computenetwork.h and winerror.h.
const (
	adapterNotFound = 0x803b0006 // HCN_E_ADAPTER_NOT_FOUND
	rpcCallFailed   = 0x800706be // RPC_S_CALL_FAILED
	rpcUnavailable  = 0x800706ba // RPC_S_SERVER_UNAVAILABLE
	elementNotFound = 0x80070490 // ERROR_NOT_FOUND
)

// goneDelay is how long no network can be made after the last one has gone with its switch.
const goneDelay = time.Second

// addressDelay is how long the first network on an adapter has no management address: the
// adapter gets it again by DHCP.
const addressDelay = time.Second

// vEthernet begins the name of the adapter that the machine has on a virtual switch.
const vEthernet = "vEthernet"

// external are the types of networks that need a virtual switch on an adapter.
var external = map[string]bool{"Overlay": true, "L2Bridge": true, "L2Tunnel": true, "Transparent": true}

// OnSwitch has f told of each virtual switch that is made, with the name of the adapter
// that it takes, and of each that goes, with "". Before any call.
func (s *Server) OnSwitch(f func(adapter string) error) { s.onSwitch = f }

// Adapter is the name of the adapter that has the management address now.
func (s *Server) Adapter() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.switched {
		return vEthernet + " (" + s.adapter + ")"
	}
	return s.adapter
}

// Restart restarts the service, and not the machine: networks that are not persistent, all endpoints and load
// balancers are gone, and for a while no call is answered.
func (s *Server) Restart(silent time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, "Endpoint")
	s.forget()
	s.back = time.Now().Add(silent)
}

// Reset is Restart of a service that has lost what it keeps on disk: persistent networks are gone, too.
func (s *Server) Reset(silent time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, "Network")
	delete(s.objects, "Endpoint")
	s.forget()
	s.back = time.Now().Add(silent)
}

// LoseNext restarts the service while it makes the next network: the network is there, the answer is lost, and for a
// while no call is answered.
func (s *Server) LoseNext(silent time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = silent
}

// lost ends a call that has made a network, if its answer is to be lost.
func (s *Server) lost(operation string, status uint32) bool {
	if s.lose == 0 || operation != "Create Network" || status != ok {
		return false
	}
	s.back, s.lose = time.Now().Add(s.lose), 0
	clear(s.handles)
	return true
}

// physicalAdapter is the name of the adapter with the address.
func physicalAdapter(address string) string {
	list, _ := net.Interfaces() // without them it has the name of Windows' first
	for _, i := range list {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, isNet := a.(*net.IPNet); isNet && n.IP.String() == address {
				return i.Name
			}
		}
	}
	return "Ethernet"
}

// refusesAdapter reports whether HNS does not find the adapter that a network names: one
// of a virtual switch, or one that a switch has already.
func (s *Server) refusesAdapter(object Object) bool {
	name, _ := object["NetworkAdapterName"].(string) // the older interface
	policies, _ := object["Policies"].([]any)
	for _, p := range policies {
		p, _ := p.(Object)
		settings, _ := p["Settings"].(Object)
		if p["Type"] == "NetAdapterName" {
			name, _ = settings["NetworkAdapterName"].(string)
		}
	}
	return name != "" && (s.switched || !strings.EqualFold(name, s.adapter))
}

// joinSwitch makes the switch if there is none; then the network's management address is late.
func (s *Server) joinSwitch(object Object) {
	kind, _ := object["Type"].(string)
	id, _ := object["ID"].(string)
	if !external[kind] {
		return
	}
	s.due[id] = time.Now()
	if !s.switched {
		s.due[id] = s.due[id].Add(addressDelay)
	}
}

// settle gives networks the management address that is due, in the form of each interface.
func (s *Server) settle() {
	for id, at := range s.due {
		object := s.objects["Network"][id]
		if object != nil && time.Now().Before(at) {
			continue
		}
		delete(s.due, id)
		if object == nil {
			continue
		}
		object["ManagementIP"] = s.managementIP
		if object["Type"] == "Overlay" {
			policies, _ := object["Policies"].([]any)
			object["Policies"] = append(policies,
				Object{"Type": "ProviderAddress", "Settings": Object{"ProviderAddress": s.managementIP}},
				Object{"Type": "DrMacAddress", "Settings": Object{"Address": "00-15-5D-12-34-56"}})
		}
	}
}

// follow makes the switch with the first network that needs one, and drops it with the last.
func (s *Server) follow() error {
	need := false
	for _, o := range s.objects["Network"] {
		kind, _ := o["Type"].(string)
		need = need || external[kind]
	}
	if need == s.switched {
		return nil
	}
	s.switched = need
	if !need {
		s.went = time.Now()
	}
	if s.onSwitch == nil {
		return nil
	}
	if need {
		return s.onSwitch(s.adapter)
	}
	return s.onSwitch("")
}

// Alter has f change the network of that name, as another program can that makes it again with other settings. With
// false it deletes it, with its endpoints.
func (s *Server) Alter(name string, f func(network Object) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, o := range s.objects["Network"] {
		if have, _ := o["Name"].(string); !strings.EqualFold(have, name) {
			continue
		}
		if !f(o) {
			s.remove("Network", id)
			maps.DeleteFunc(s.objects["Endpoint"], func(_ string, e Object) bool { return e["HostComputeNetwork"] == id })
		}
		o["Subnets"] = subnets1(o)
		return s.follow()
	}
	return fmt.Errorf("there is no network %s", name)
}
