// Package hns is a stand-in for the Host Networking Service of Windows. It keeps
// networks, endpoints and load balancers as objects, for programs under Wine that
// reach it through wine/hns.c. It moves no packet.
package hns

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Results of calls; winerror.h and computenetwork.h.
const (
	ok               = 0
	notImplemented   = 0x80004001 // E_NOTIMPL
	invalidArgument  = 0x80070057 // E_INVALIDARG
	networkNotFound  = 0x803b0001 // HCN_E_NETWORK_NOT_FOUND
	endpointNotFound = 0x803b0002 // HCN_E_ENDPOINT_NOT_FOUND
)

// nonPersistent is the flag EnableNonPersistent of an HCN network: it does not
// outlive a reboot. flanneld's overlay network has it.
const nonPersistent = 8

// Object is an HCN object as its creator wrote it, with what the service adds.
type Object = map[string]any

// Server answers calls until it is closed.
type Server struct {
	managementIP string
	log          io.Writer
	adapter      string // with managementIP, while it has no virtual switch
	attach       func(address string) error
	onSwitch     func(adapter string) error
	listener     net.Listener
	work         sync.WaitGroup

	mu       sync.Mutex
	objects  map[string]map[string]Object // kind, id
	gone     map[string]map[string]Object // deleted, and listed once more
	handles  map[uint64]ref
	switched bool                 // the adapter has a virtual switch
	went     time.Time            // when that last went
	due      map[string]time.Time // when a network gets its management address
	back     time.Time            // until then no call is answered
	lose     time.Duration        // how long no call is answered after the next network is made; 0 = all are
	noVSID   bool                 // a query does not report the VSID of subnets
}

type ref struct{ kind, id string }

// Start listens on a free loopback port. managementIP is the address that networks
// get, and must be one of this machine: programs look for its interface. log gets one line a call.
func Start(managementIP string, log io.Writer) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{managementIP: managementIP, adapter: physicalAdapter(managementIP), log: log, listener: l,
		objects: map[string]map[string]Object{}, gone: map[string]map[string]Object{}, handles: map[uint64]ref{},
		due: map[string]time.Time{}}
	s.work.Go(s.accept)
	return s, nil
}

// OnAttach has f put the address of an endpoint onto the machine when it is attached to
// its host: the real service makes an adapter with it. Before any call.
func (s *Server) OnAttach(f func(address string) error) { s.attach = f }

// Port of the server on 127.0.0.1.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Close ends the server and waits for calls in progress.
func (s *Server) Close() {
	s.listener.Close()
	s.work.Wait()
}

// Network returns the network of that name, nil if there is none. Names are unique
// without regard to case.
func (s *Server) Network(name string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	for _, o := range s.objects["Network"] {
		if have, _ := o["Name"].(string); strings.EqualFold(have, name) {
			return maps.Clone(o)
		}
	}
	return nil
}

// Count is the number of objects of a kind: Network, Endpoint, LoadBalancer.
func (s *Server) Count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects[kind])
}

// Endpoint returns the endpoint with that address, nil if there is none.
func (s *Server) Endpoint(address string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects["Endpoint"] {
		configurations, _ := o["IpConfigurations"].([]any)
		for _, c := range configurations {
			if c, _ := c.(Object); c["IpAddress"] == address {
				return maps.Clone(o)
			}
		}
	}
	return nil
}

// HideVSID has queries leave out the VSID policies of subnets, or report them again.
func (s *Server) HideVSID(hide bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noVSID = hide
}

// Reboot forgets what does not outlive one.
func (s *Server) Reboot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

// forget drops non-persistent networks with their endpoints, load balancers, and all handles.
func (s *Server) forget() {
	for id, o := range s.objects["Network"] {
		if flags, _ := o["Flags"].(float64); int(flags)&nonPersistent != 0 {
			delete(s.objects["Network"], id)
			maps.DeleteFunc(s.objects["Endpoint"], func(_ string, e Object) bool { return e["HostComputeNetwork"] == id })
		}
	}
	delete(s.objects, "LoadBalancer")
	clear(s.gone)
	clear(s.handles)
	if err := s.follow(); err != nil {
		fmt.Fprintln(s.log, "hns:", err)
	}
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.work.Go(func() {
			defer c.Close()
			c.SetDeadline(time.Now().Add(30 * time.Second))
			if err := s.answer(c); err != nil {
				fmt.Fprintln(s.log, "hns:", err)
			}
		})
	}
}

// answer serves the one call of a connection; the wire is described in wine/hns.c.
func (s *Server) answer(c io.ReadWriter) error {
	var f [4]string
	for i := range f {
		var n uint32
		if err := binary.Read(c, binary.LittleEndian, &n); err != nil {
			return err
		}
		if n > 1<<20 {
			return fmt.Errorf("a string of %d bytes", n)
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		f[i] = string(b)
	}
	s.mu.Lock()
	s.settle()
	status, handle, text := uint32(rpcUnavailable), uint64(0), ""
	if !time.Now().Before(s.back) {
		status, handle, text = s.call(f[0], f[1], f[2], f[3])
		if s.lost(f[0], status) {
			status, handle, text = rpcCallFailed, 0, ""
		}
	}
	err := s.follow()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.log, "%s id=%s parent=%s %s -> %#x #%d %s\n", f[0], f[1], f[3], f[2], status, handle, text)
	out := binary.LittleEndian.AppendUint32(nil, status)
	out = binary.LittleEndian.AppendUint64(out, handle)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	_, err = c.Write(append(out, text...))
	return err
}

func (s *Server) call(operation, id, settings, parent string) (status uint32, handle uint64, text string) {
	if operation == "HNSCall" {
		return ok, 0, s.version1(id, parent, settings)
	}
	verb, kind, _ := strings.Cut(operation, " ")
	if s.objects[kind] == nil {
		s.objects[kind] = map[string]Object{}
	}
	if number, isHandle := strings.CutPrefix(id, "#"); isHandle {
		n, _ := strconv.ParseUint(number, 10, 64)
		id = s.handles[n].id
	}
	object := s.objects[kind][id]
	if object == nil && (verb == "Open" || verb == "Query" || verb == "Modify") {
		status = endpointNotFound
		if kind == "Network" {
			status = networkNotFound
		}
		return status, 0, fmt.Sprintf(`{"Success":false,"Error":"not found","ErrorCode":%d}`, int32(status))
	}
	switch verb {
	case "Enumerate":
		return s.enumerate(kind, settings)
	case "Create":
		return s.create(kind, id, settings, parent)
	case "Open":
		return ok, s.open(kind, id), ""
	case "Query":
		text = encode(object)
		if s.noVSID {
			text = withoutVSID(text)
		}
		return ok, 0, text
	case "Modify":
		return modify(object, settings), 0, ""
	case "Delete":
		s.remove(kind, id)
		return ok, 0, ""
	}
	return notImplemented, 0, ""
}

// remove deletes an object. A list that was begun before still has it: callers list ids
// and open each, and what goes in between is not found.
func (s *Server) remove(kind, id string) {
	if o := s.objects[kind][id]; o != nil {
		if s.gone[kind] == nil {
			s.gone[kind] = map[string]Object{}
		}
		s.gone[kind][id] = o
	}
	delete(s.objects[kind], id)
}

func (s *Server) enumerate(kind, query string) (uint32, uint64, string) {
	var q struct{ Filter string }
	filter := Object{}
	if query != "" && json.Unmarshal([]byte(query), &q) != nil ||
		q.Filter != "" && json.Unmarshal([]byte(q.Filter), &filter) != nil {
		return invalidArgument, 0, ""
	}
	all := maps.Clone(s.objects[kind])
	maps.Copy(all, s.gone[kind])
	delete(s.gone, kind)
	found := []string{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		match := true
		for k, want := range filter {
			match = match && strings.EqualFold(fmt.Sprint(all[id][k]), fmt.Sprint(want))
		}
		if match {
			found = append(found, id)
		}
	}
	return ok, 0, encode(found)
}

func (s *Server) create(kind, id, settings, parent string) (uint32, uint64, string) {
	object := Object{}
	if json.Unmarshal([]byte(settings), &object) != nil {
		return invalidArgument, 0, ""
	}
	if strings.Trim(id, "0-") == "" {
		id = newID()
	}
	object["ID"] = id
	switch kind {
	case "Network":
		if time.Since(s.went) < goneDelay {
			return elementNotFound, 0, `{"Success":false,"Error":"Element not found. ","ErrorCode":2147943568}`
		}
		if s.refusesAdapter(object) {
			return adapterNotFound, 0, `{"Success":false,"Error":"An adapter was not found. ","ErrorCode":2151350278}`
		}
		s.joinSwitch(object)
		object["Subnets"] = subnets1(object)
	case "Endpoint":
		n, _ := strconv.ParseUint(strings.TrimPrefix(parent, "#"), 10, 64)
		network := s.handles[n]
		if s.objects["Network"][network.id] == nil {
			return networkNotFound, 0, ""
		}
		object["HostComputeNetwork"] = network.id
		if mac, _ := object["MacAddress"].(string); mac == "" {
			object["MacAddress"] = fmt.Sprintf("00-15-5D-00-00-%02X", len(s.objects[kind])+1)
		}
	}
	s.objects[kind][id] = object
	return ok, s.open(kind, id), ""
}

func (s *Server) open(kind, id string) uint64 {
	handle := uint64(len(s.handles) + 1)
	s.handles[handle] = ref{kind, id}
	return handle
}

// modify adds policies, and notes any other resource as it was asked for.
func modify(object Object, settings string) uint32 {
	var r struct {
		ResourceType, RequestType string
		Settings                  json.RawMessage
	}
	if json.Unmarshal([]byte(settings), &r) != nil {
		return invalidArgument
	}
	if r.ResourceType != "Policy" {
		resources, _ := object["Resources"].([]any)
		object["Resources"] = append(resources, Object{"Type": r.ResourceType, "Request": r.RequestType, "Data": r.Settings})
		return ok
	}
	if r.RequestType != "Add" {
		return notImplemented
	}
	var add struct{ Policies []any }
	if json.Unmarshal(r.Settings, &add) != nil {
		return invalidArgument
	}
	policies, _ := object["Policies"].([]any)
	object["Policies"] = append(policies, add.Policies...)
	return ok
}

// withoutVSID is a network in JSON without the VSID policies of its subnets.
func withoutVSID(network string) string {
	var n Object
	if err := json.Unmarshal([]byte(network), &n); err != nil { // it was just encoded
		panic(err)
	}
	ipams, _ := n["Ipams"].([]any)
	for _, ipam := range ipams {
		i, _ := ipam.(Object)
		subnets, _ := i["Subnets"].([]any)
		for _, subnet := range subnets {
			s, _ := subnet.(Object)
			policies, _ := s["Policies"].([]any)
			if policies == nil {
				continue
			}
			s["Policies"] = slices.DeleteFunc(policies, func(p any) bool {
				policy, _ := p.(Object)
				return policy["Type"] == "VSID"
			})
		}
	}
	return encode(n)
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // only values that came out of JSON are kept
		panic(err)
	}
	return string(b)
}

func newID() string {
	b := make([]byte, 16)
	rand.Read(b)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// NodeIP is the IPv4 address of this machine towards the outside, or else any that
// is not loopback: kubelet refuses a loopback address as the node's.
func NodeIP() (string, error) {
	// TEST-NET-3 (RFC 5737), which only a default route leads to. Nothing is sent.
	if c, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(203, 0, 113, 1), Port: 9}); err == nil {
		defer c.Close()
		return c.LocalAddr().(*net.UDPAddr).IP.String(), nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if n, isNet := a.(*net.IPNet); isNet && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no IPv4 address besides loopback")
}
