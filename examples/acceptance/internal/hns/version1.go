package hns

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// kinds of objects by their first folder in the older interface.
var kinds = map[string]string{"networks": "Network", "endpoints": "Endpoint", "policylists": "LoadBalancer"}

// version1 answers the older interface: method and path of a REST-like call, with its
// body. An object that comes this way has the fields of both interfaces.
func (s *Server) version1(method, path, request string) string {
	if path == "/globals/version" {
		// 15.1: what Windows Server 2022 answers, the version with every feature that kube-proxy asks for.
		return `{"Success":true,"Output":{"Major":15,"Minor":1}}`
	}
	head, rest, _ := strings.Cut(strings.Trim(path, "/"), "/")
	id, verb, _ := strings.Cut(rest, "/")
	kind := kinds[head]
	object := s.objects[kind][id]
	switch {
	case kind == "":
	case method == "GET" && id == "":
		list := make([]Object, 0, len(s.objects[kind]))
		for _, id := range slices.Sorted(maps.Keys(s.objects[kind])) {
			list = append(list, s.objects[kind][id])
		}
		return encode(Object{"Success": true, "Output": list})
	case method == "POST" && id == "":
		return s.create1(kind, request)
	case object == nil:
		return failed("Element not found.")
	case method == "GET":
		return encode(Object{"Success": true, "Output": object})
	case method == "DELETE":
		s.remove(kind, id)
		return `{"Success":true}`
	case method == "POST" && verb == "attach" && kind == "Endpoint":
		return s.attach1(object)
	}
	return failed("the stand-in does not know this call")
}

func failed(why string) string { return encode(Object{"Success": false, "Error": why}) }

// create1 creates a network or endpoint and adds what the newer interface calls the same.
func (s *Server) create1(kind, request string) string {
	object := Object{}
	if err := json.Unmarshal([]byte(request), &object); err != nil {
		return failed(err.Error())
	}
	object["ID"] = newID()
	switch kind {
	case "Network":
		if time.Since(s.went) < goneDelay {
			return failed("Element not found. ")
		}
		if s.refusesAdapter(object) {
			return failed("An adapter was not found. ")
		}
		s.joinSwitch(object)
		var subnets []any
		list, _ := object["Subnets"].([]any)
		for _, v := range list {
			subnet, _ := v.(Object)
			subnets = append(subnets, Object{"IpAddressPrefix": subnet["AddressPrefix"],
				"Routes": []any{Object{"NextHop": subnet["GatewayAddress"], "DestinationPrefix": "0.0.0.0/0"}}})
		}
		object["Ipams"] = []any{Object{"Type": "Static", "Subnets": subnets}}
	case "Endpoint":
		id, _ := object["VirtualNetwork"].(string)
		if s.objects["Network"][id] == nil {
			return failed("The network was not found.")
		}
		object["HostComputeNetwork"] = id
		object["IpConfigurations"] = []any{Object{"IpAddress": object["IPAddress"]}}
	default:
		return failed("the stand-in does not make this")
	}
	id := object["ID"].(string)
	if s.objects[kind] == nil {
		s.objects[kind] = map[string]Object{}
	}
	s.objects[kind][id] = object
	return encode(Object{"Success": true, "Output": object})
}

// attach1 puts an endpoint into the host's own compartment.
func (s *Server) attach1(endpoint Object) string {
	if endpoint["Attached"] == true {
		return failed("This endpoint is already attached to the switch.")
	}
	address, _ := endpoint["IPAddress"].(string)
	if s.attach != nil {
		if err := s.attach(address); err != nil {
			return failed(err.Error())
		}
	}
	endpoint["Attached"] = true
	return `{"Success":true}`
}

// subnets1 are the subnets of a network of the newer interface as the older one has them.
func subnets1(network Object) []any {
	subnets := []any{}
	ipams, _ := network["Ipams"].([]any)
	for _, i := range ipams {
		i, _ := i.(Object)
		list, _ := i["Subnets"].([]any)
		for _, v := range list {
			subnet, _ := v.(Object)
			have := Object{"AddressPrefix": subnet["IpAddressPrefix"]}
			if routes, _ := subnet["Routes"].([]any); len(routes) > 0 {
				route, _ := routes[0].(Object)
				have["GatewayAddress"] = route["NextHop"]
			}
			subnets = append(subnets, have)
		}
	}
	return subnets
}
