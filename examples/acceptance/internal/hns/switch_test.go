package hns

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// awaitAddress wants that the first network has no management address at first, and waits
// until it has. It returns what a query says then.
func awaitAddress(t *testing.T, s *Server, handle uint64) string {
	t.Helper()
	for bound := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, _, text := call(t, s, "Query Network", fmt.Sprintf("#%d", handle))
		if strings.Contains(text, `"ProviderAddress":"192.0.2.7"`) {
			return text
		}
		if time.Now().After(bound) {
			t.Fatalf("no management address: %s", text)
		}
	}
}

func network(name, kind, adapter, flags string) string {
	return fmt.Sprintf(`{"Name":%q,"Type":%q,"Flags":%s,"Policies":[{"Type":"NetAdapterName","Settings":`+
		`{"NetworkAdapterName":%q}}],"Ipams":[{"Subnets":[{"IpAddressPrefix":"10.244.3.0/24","Routes":`+
		`[{"NextHop":"10.244.3.1"}]}]}]}`, name, kind, flags, adapter)
}

// TestSwitch: the first network on the adapter makes its virtual switch, which takes the
// adapter's name and, for a while, its address. From then on a network must name no adapter.
func TestSwitch(t *testing.T) {
	s := start(t)
	var told []string
	s.OnSwitch(func(adapter string) error { told = append(told, adapter); return nil })
	if status, _, _ := call(t, s, "Create Network", noID, network("a", "Overlay", "vEthernet (Ethernet)", "0")); status !=
		adapterNotFound {
		t.Errorf("a network on the adapter of a switch: %#x", status)
	}
	status, handle, _ := call(t, s, "Create Network", noID, network("flannel.4096", "Overlay", s.Adapter(), "8"))
	if status != ok {
		t.Fatalf("the first network: %#x", status)
	}
	if _, _, text := call(t, s, "Query Network", fmt.Sprintf("#%d", handle)); strings.Contains(text, "ProviderAddress") {
		t.Errorf("the management address appeared at once: %s", text)
	}
	if s.Adapter() != "vEthernet (Ethernet)" || !slices.Equal(told, []string{"Ethernet"}) {
		t.Errorf("the adapter is %q, told %q", s.Adapter(), told)
	}
	awaitAddress(t, s, handle)
	for _, adapter := range []string{"Ethernet", s.Adapter()} {
		status, _, _ = call(t, s, "Create Network", noID, network("b", "Overlay", adapter, "0"))
		if status != adapterNotFound {
			t.Errorf("a second network on %s: %#x", adapter, status)
		}
	}
	_, _, text := call(t, s, "HNSCall", "POST", `{"Name":"cbr0","Type":"L2Bridge","NetworkAdapterName":"Ethernet"}`,
		"/networks/")
	if !strings.Contains(text, `"Success":false`) {
		t.Errorf("the older interface accepted an adapter of a switch: %s", text)
	}
	status, _, _ = call(t, s, "Create Network", noID, network("External", "L2Bridge", "", "0"))
	if status != ok || s.Network("External")["ManagementIP"] != "192.0.2.7" {
		t.Errorf("a second network on the same switch: %#x, %v", status, s.Network("External"))
	}
	if b, _ := json.Marshal(s.Network("External")["Subnets"]); string(b) !=
		`[{"AddressPrefix":"10.244.3.0/24","GatewayAddress":"10.244.3.1"}]` {
		t.Errorf("the older interface has the subnets %s", b)
	}
	for _, name := range []string{"flannel.4096", "External"} {
		call(t, s, "Delete Network", s.Network(name)["ID"].(string))
	}
	if s.Adapter() != "Ethernet" || !slices.Equal(told, []string{"Ethernet", ""}) {
		t.Errorf("after the last network the adapter is %q, told %q", s.Adapter(), told)
	}
	again := network("c", "Overlay", "Ethernet", "0")
	if status, _, _ := call(t, s, "Create Network", noID, again); status != elementNotFound {
		t.Errorf("a network right after the last one: %#x", status)
	}
	s.went = s.went.Add(-goneDelay)
	if status, _, _ := call(t, s, "Create Network", noID, again); status != ok {
		t.Errorf("a network later: %#x", status)
	}
}

// TestRestart: the service does not answer while it restarts, and forgets what is not
// persistent.
func TestRestart(t *testing.T) {
	s := start(t)
	call(t, s, "Create Network", noID, network("flannel.4096", "Overlay", "", "8"))
	call(t, s, "Create Network", noID, network("External", "Overlay", "", "0"))
	s.Restart(time.Hour)
	if status, _, _ := call(t, s, "Enumerate Network"); status != rpcUnavailable {
		t.Errorf("while it restarts: %#x", status)
	}
	s.Restart(0)
	status, _, found := call(t, s, "Enumerate Network")
	if status != ok || s.Network("flannel.4096") != nil || s.Network("External") == nil {
		t.Errorf("after the restart: %#x %s", status, found)
	}
	s.Reset(0)
	if status, _, found := call(t, s, "Enumerate Network"); status != ok || s.Network("External") != nil {
		t.Errorf("after it has lost what it keeps: %#x %s", status, found)
	}
}

// TestLoseNext: the network is made, and its maker is not told.
func TestLoseNext(t *testing.T) {
	s := start(t)
	s.LoseNext(time.Hour)
	if status, _, _ := call(t, s, "Create Network", noID, network("flannel.4096", "Overlay", "", "0")); status !=
		rpcCallFailed {
		t.Errorf("the call: %#x", status)
	}
	if status, _, _ := call(t, s, "Enumerate Network"); status != rpcUnavailable {
		t.Errorf("the call after it: %#x", status)
	}
	s.Restart(0)
	if status, _, _ := call(t, s, "Create Network", noID, network("External", "Overlay", "", "0")); status != ok ||
		s.Network("flannel.4096") == nil {
		t.Errorf("a later one: %#x", status)
	}
}
