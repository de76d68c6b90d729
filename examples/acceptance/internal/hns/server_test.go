package hns

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// call speaks as wine/hns.c does.
func call(t *testing.T, s *Server, fields ...string) (status uint32, handle uint64, text string) {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	var request []byte
	for i := range 4 {
		f := ""
		if i < len(fields) {
			f = fields[i]
		}
		request = binary.LittleEndian.AppendUint32(request, uint32(len(f)))
		request = append(request, f...)
	}
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer) < 16 {
		t.Fatalf("the answer has %d bytes", len(answer))
	}
	return binary.LittleEndian.Uint32(answer), binary.LittleEndian.Uint64(answer[4:]), string(answer[16:])
}

func start(t *testing.T) *Server {
	s, err := Start("192.0.2.7", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

const noID = "00000000-0000-0000-0000-000000000000"

func TestNetwork(t *testing.T) {
	s := start(t)
	status, handle, _ := call(t, s, "Create Network", noID, `{"Name":"flannel.4096","Type":"Overlay","Flags":8}`)
	if status != ok {
		t.Fatalf("create: %#x", status)
	}
	_, _, found := call(t, s, "Enumerate Network", "", `{"Filter":"{\"Name\":\"FLANNEL.4096\"}"}`)
	var ids []string
	if err := json.Unmarshal([]byte(found), &ids); err != nil || len(ids) != 1 {
		t.Fatalf("enumerate: %s, %v", found, err)
	}
	if status, _, _ := call(t, s, "Open Network", ids[0]); status != ok {
		t.Errorf("open: %#x", status)
	}
	if text := awaitAddress(t, s, handle); !strings.Contains(text, "DrMacAddress") {
		t.Errorf("the overlay network has no MAC address of its router: %s", text)
	}
	call(t, s, "Modify Network", fmt.Sprintf("#%d", handle),
		`{"ResourceType":"Policy","RequestType":"Add","Settings":{"Policies":[{"Type":"HostRoute"}]}}`)
	if b, _ := json.Marshal(s.Network("flannel.4096")); !strings.Contains(string(b), "HostRoute") {
		t.Errorf("after the policy: %s", b)
	}
	if status, _, _ := call(t, s, "Create Endpoint", noID, `{"Name":"e"}`, fmt.Sprintf("#%d", handle)); status != ok {
		t.Errorf("endpoint: %#x", status)
	}
	if status, _, _ := call(t, s, "Create Endpoint", noID, `{"Name":"e"}`, "#99"); status != networkNotFound {
		t.Errorf("endpoint without a network: %#x", status)
	}

	s.Reboot()
	if s.Network("flannel.4096") != nil || s.Count("Endpoint") != 0 {
		t.Error("a non-persistent network survived a reboot")
	}
	if status, _, _ := call(t, s, "Open Network", ids[0]); status != networkNotFound {
		t.Errorf("open after a reboot: %#x", status)
	}
}

// TestHiddenVSID: a query leaves out the VSID of a subnet, and nothing else.
func TestHiddenVSID(t *testing.T) {
	s := start(t)
	_, handle, _ := call(t, s, "Create Network", noID, `{"Name":"flannel.4096","Type":"Overlay","Ipams":[{"Subnets":[
		{"IpAddressPrefix":"10.244.3.0/24",
			"Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}},{"Type":"VLAN"}]}]}]}`)
	query := func() string {
		t.Helper()
		status, _, text := call(t, s, "Query Network", fmt.Sprintf("#%d", handle))
		if status != ok {
			t.Fatalf("query: %#x", status)
		}
		return text
	}
	if text := query(); !strings.Contains(text, "4096}") {
		t.Errorf("the VSID is not reported: %s", text)
	}
	s.HideVSID(true)
	text := query()
	for what, want := range map[string]bool{"VSID": false, "IsolationId": false, "VLAN": true, "10.244.3.0/24": true} {
		if strings.Contains(text, what) != want {
			t.Errorf("hidden: %s reported is %v, want %v: %s", what, !want, want, text)
		}
	}
	s.HideVSID(false)
	if text := query(); !strings.Contains(text, "4096}") {
		t.Errorf("the VSID is not reported again: %s", text)
	}
}

func TestVersion1(t *testing.T) {
	s := start(t)
	call(t, s, "Create Network", noID, `{"Name":"nat","Type":"NAT"}`)
	if _, _, text := call(t, s, "HNSCall", "GET", "", "/networks/"); !strings.Contains(text, `"Name":"nat"`) {
		t.Errorf("networks: %s", text)
	}
	if _, _, text := call(t, s, "HNSCall", "GET", "", "/globals/version"); !strings.Contains(text, `"Major":15`) {
		t.Errorf("version: %s", text)
	}
}

// TestVersion1Host: what flanneld does for an L2Bridge network: network, endpoint, its
// address on the host. The newer interface sees both.
func TestVersion1Host(t *testing.T) {
	s := start(t)
	var attached []string
	s.OnAttach(func(address string) error { attached = append(attached, address); return nil })
	post := func(path, body string) (answer struct {
		Success bool
		Error   string
		Output  struct{ ID, ManagementIP string }
	}) {
		t.Helper()
		_, _, text := call(t, s, "HNSCall", "POST", body, path)
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return answer
	}
	network := post("/networks/",
		`{"Name":"cbr0","Type":"L2Bridge","Subnets":[{"AddressPrefix":"10.244.0.0/24","GatewayAddress":"10.244.0.1"}]}`)
	if !network.Success || network.Output.ManagementIP != "" {
		t.Fatalf("network: %+v", network)
	}
	if bad := post("/endpoints/", `{"Name":"cbr0_ep","VirtualNetwork":"none"}`); bad.Success {
		t.Error("an endpoint was created without a network")
	}
	endpoint := post("/endpoints/", `{"Name":"cbr0_ep","IPAddress":"10.244.0.2","VirtualNetwork":"`+
		network.Output.ID+`"}`)
	if first := post("/endpoints/"+endpoint.Output.ID+"/attach", `{}`); !first.Success {
		t.Errorf("attach: %+v", first)
	}
	if again := post("/endpoints/"+endpoint.Output.ID+"/attach", `{}`); again.Success ||
		!strings.Contains(again.Error, "already attached to the switch") {
		t.Errorf("attached again: %+v", again)
	}
	if len(attached) != 1 || attached[0] != "10.244.0.2" {
		t.Errorf("attached %v", attached)
	}
	if s.Endpoint("10.244.0.2") == nil {
		t.Error("the newer interface has no such endpoint")
	}
	if b, _ := json.Marshal(s.Network("cbr0")); !strings.Contains(string(b), `"IpAddressPrefix":"10.244.0.0/24"`) {
		t.Errorf("the newer interface has %s", b)
	}
	call(t, s, "HNSCall", "DELETE", "", "/networks/"+network.Output.ID)
	if s.Network("cbr0") != nil {
		t.Error("the network still exists")
	}
}
