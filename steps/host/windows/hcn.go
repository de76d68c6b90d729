//go:build windows

package windows

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// The second version of the interface to the Host Networking Service, computenetwork.dll
// (learn.microsoft.com/windows-server/networking/technologies/hcn): what nodejoin needs of it. The package hcn of
// hcsshim, with which the tests compare it, would add 600 kB to what is sent to a machine.

// computeNetwork is the library.
var computeNetwork = windows.NewLazySystemDLL("computenetwork.dll")

// hcnObjects are the calls for one sort of object.
type hcnObjects struct{ enumerate, open, query, close, remove *windows.LazyProc }

func hcnOf(plural, singular string) hcnObjects {
	proc := func(name string) *windows.LazyProc { return computeNetwork.NewProc("Hcn" + name) }
	return hcnObjects{enumerate: proc("Enumerate" + plural), open: proc("Open" + singular),
		query: proc("Query" + singular + "Properties"), close: proc("Close" + singular), remove: proc("Delete" + singular)}
}

var (
	hcnNetworks      = hcnOf("Networks", "Network")
	hcnEndpoints     = hcnOf("Endpoints", "Endpoint")
	hcnLoadBalancers = hcnOf("LoadBalancers", "LoadBalancer")
	hcnCreateNetwork = computeNetwork.NewProc("HcnCreateNetwork")
)

// The objects as the service writes them; only what is used.
type (
	hcnVersion struct{ Major, Minor int }
	hcnPolicy  struct {
		Type     string
		Settings json.RawMessage `json:",omitempty"`
	}
	hcnVsid   struct{ IsolationId uint32 } //nolint:staticcheck // the service's word
	hcnRoute  struct{ NextHop, DestinationPrefix string }
	hcnSubnet struct {
		IpAddressPrefix string      //nolint:staticcheck // the service's word
		Policies        []hcnPolicy `json:",omitempty"`
		Routes          []hcnRoute  `json:",omitempty"`
	}
	hcnIpam struct {
		Type    string
		Subnets []hcnSubnet `json:",omitempty"`
	}
	hcnNetwork struct {
		ID            string `json:",omitempty"`
		Name          string
		Type          string      // absent of one of type NAT
		Policies      []hcnPolicy `json:",omitempty"`
		Ipams         []hcnIpam   `json:",omitempty"`
		SchemaVersion hcnVersion
	}
	hcnAddress struct {
		IpAddress    string //nolint:staticcheck // the service's word
		PrefixLength uint8
	}
	hcnEndpoint struct {
		ID, Name, HostComputeNetwork, MacAddress string
		IpConfigurations                         []hcnAddress //nolint:staticcheck // the service's word
		Flags                                    uint32
	}
	hcnLoadBalancer struct {
		ID, SourceVIP                      string
		HostComputeEndpoints, FrontendVIPs []string
		PortMappings                       []hcnPortMapping
	}
	hcnPortMapping struct {
		Protocol                   uint32 // number of IANA
		InternalPort, ExternalPort uint16
	}
)

// Words of the service.
const (
	hcnOverlay         = "Overlay"
	hcnNAT             = "NAT"
	hcnProviderAddress = "ProviderAddress"
	hcnVxlanPort       = "VxlanPort"
	hcnNetAdapterName  = "NetAdapterName"
	hcnVSID            = "VSID"
	hcnRemoteEndpoint  = 1 // flag of an endpoint that is on another machine
)

var hcnSchema = hcnVersion{Major: 2}

// hcnError is what a call of the service failed with.
type hcnError struct {
	call   string
	code   windows.Errno // a Win32 code where the HRESULT carries one, else the HRESULT
	detail string        // JSON of the service; may be empty
}

func (e *hcnError) Error() string {
	text := fmt.Sprintf("%s: %v (0x%x)", e.call, e.code, uint32(e.code))
	if e.detail != "" {
		text += ": " + e.detail
	}
	return text
}

func (e *hcnError) Unwrap() error { return e.code }

// hcnSilent are the codes of a service that restarts, or has not started yet. What was asked may have been done.
var hcnSilent = []windows.Errno{windows.RPC_S_SERVER_UNAVAILABLE, windows.RPC_S_SERVER_TOO_BUSY,
	windows.RPC_S_CALL_FAILED, windows.RPC_S_CALL_FAILED_DNE, windows.EPT_S_NOT_REGISTERED,
	windows.ERROR_SERVICE_NOT_ACTIVE}

// hcnUnsettled are the codes of a service that does not find an adapter, or what belongs to it: also for a while after
// a network has gone with its switch (microsoft/hcsshim#95).
var hcnUnsettled = []windows.Errno{windows.ERROR_NOT_FOUND, windows.Errno(windows.HCN_E_ADAPTER_NOT_FOUND)}

// Is reports whether the service did not answer, or does not find an adapter.
func (e *hcnError) Is(target error) bool {
	return target == host.ErrNoAnswer && slices.Contains(hcnSilent, e.code) ||
		target == host.ErrUnsettled && slices.Contains(hcnUnsettled, e.code)
}

// is reports whether err is a failure of the service with one of these codes.
func isHCN(err error, codes ...windows.Errno) bool {
	var failed *hcnError
	if !errors.As(err, &failed) {
		return false
	}
	for _, c := range codes {
		if failed.code == c {
			return true
		}
	}
	return false
}

// hcnFailed makes an error of what a call returned and of its last argument, which it frees. A call that returned
// well but left a text has failed as well.
func hcnFailed(p *windows.LazyProc, hr uintptr, result *uint16) error {
	detail := hcnText(result)
	if int32(hr) >= 0 && detail == "" {
		return nil
	}
	code := windows.Errno(uint32(hr))
	if uint32(hr)&0xffff0000 == 0x80070000 { // FACILITY_WIN32
		code = windows.Errno(uint32(hr) & 0xffff)
	}
	return &hcnError{p.Name, code, detail}
}

// hcnText takes a text of the service; "" of nil.
func hcnText(p *uint16) string {
	if p == nil {
		return ""
	}
	defer windows.CoTaskMemFree(unsafe.Pointer(p))
	return windows.UTF16PtrToString(p)
}

// hcnList reads all objects of a sort. It lists ids and opens each, so an object that vanishes in between is an error.
func hcnList[T any](objects hcnObjects) ([]T, error) {
	query, err := hcnQuery()
	if err != nil {
		return nil, err
	}
	var list, result *uint16
	hr, _, _ := objects.enumerate.Call(uintptr(unsafe.Pointer(query)), uintptr(unsafe.Pointer(&list)),
		uintptr(unsafe.Pointer(&result)))
	if err := hcnFailed(objects.enumerate, hr, result); err != nil {
		return nil, err
	}
	var ids []string
	if err := json.Unmarshal([]byte(hcnText(list)), &ids); err != nil {
		return nil, fmt.Errorf("%s: %w", objects.enumerate.Name, err)
	}
	out := make([]T, len(ids))
	for i, id := range ids {
		text, err := objects.read(id, query)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(text), &out[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", objects.query.Name, err)
		}
	}
	return out, nil
}

func hcnQuery() (*uint16, error) {
	b, err := json.Marshal(struct {
		SchemaVersion hcnVersion
		Flags         uint32
	}{SchemaVersion: hcnSchema})
	if err != nil {
		return nil, err
	}
	return windows.UTF16PtrFromString(string(b))
}

// read is the JSON of an object.
func (o hcnObjects) read(id string, query *uint16) (string, error) {
	guid, err := hcnID(id)
	if err != nil {
		return "", err
	}
	var handle uintptr
	var text, result *uint16
	hr, _, _ := o.open.Call(uintptr(unsafe.Pointer(&guid)), uintptr(unsafe.Pointer(&handle)),
		uintptr(unsafe.Pointer(&result)))
	if err := hcnFailed(o.open, hr, result); err != nil {
		return "", err
	}
	defer func() { _, _, _ = o.close.Call(handle) }()
	hr, _, _ = o.query.Call(handle, uintptr(unsafe.Pointer(query)), uintptr(unsafe.Pointer(&text)),
		uintptr(unsafe.Pointer(&result)))
	runtime.KeepAlive(query)
	err = hcnFailed(o.query, hr, result)
	return hcnText(text), err
}

// delete removes the object of an id.
func (o hcnObjects) delete(id string) error {
	guid, err := hcnID(id)
	if err != nil {
		return err
	}
	var result *uint16
	hr, _, _ := o.remove.Call(uintptr(unsafe.Pointer(&guid)), uintptr(unsafe.Pointer(&result)))
	return hcnFailed(o.remove, hr, result)
}

// create makes the network; the service gives it an id.
func (n hcnNetwork) create() error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	settings, err := windows.UTF16PtrFromString(string(b))
	if err != nil {
		return err
	}
	var guid windows.GUID
	var handle uintptr
	var result *uint16
	hr, _, _ := hcnCreateNetwork.Call(uintptr(unsafe.Pointer(&guid)), uintptr(unsafe.Pointer(settings)),
		uintptr(unsafe.Pointer(&handle)), uintptr(unsafe.Pointer(&result)))
	if err := hcnFailed(hcnCreateNetwork, hr, result); err != nil {
		return err
	}
	_, _, _ = hcnNetworks.close.Call(handle)
	return nil
}

// hcnID reads an id, which the service writes without braces.
func hcnID(id string) (windows.GUID, error) {
	return windows.GUIDFromString("{" + strings.Trim(id, "{}") + "}")
}
