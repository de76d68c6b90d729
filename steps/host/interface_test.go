package host_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
)

// TestOnInterface: the machine's address is that of the named adapter, also once a virtual switch has it.
func TestOnInterface(t *testing.T) {
	for _, c := range []struct {
		name                 string
		adapters             []host.Adapter
		address, own, subnet string
	}{
		{"", nil, "192.0.2.21", "Ethernet", "192.0.2.0/24"},
		{"Ethernet 2", []host.Adapter{{Name: "Ethernet", Addresses: []string{"192.0.2.21/24"}, Gateway: true},
			{Name: "Ethernet 2", Addresses: []string{"198.51.100.7/26", "198.51.100.8/26"}}},
			"198.51.100.7", "Ethernet 2", "198.51.100.0/26"},
		{"ethernet 2", []host.Adapter{{Name: "Ethernet 2"}, {Name: "vEthernet (Ethernet 2)",
			Addresses: []string{"198.51.100.7/26"}}}, "198.51.100.7", "vEthernet (Ethernet 2)", "198.51.100.0/26"},
		{"Ethernet 3", []host.Adapter{{Name: "Ethernet", Addresses: []string{"192.0.2.21/24"}, Gateway: true}},
			"", "Ethernet 3", ""},
		{"Ethernet", []host.Adapter{{Name: "Ethernet"}}, "", "Ethernet", ""},
	} {
		dir := t.TempDir()
		quirks, err := json.Marshal(sandbox.Quirks{Adapters: c.adapters})
		if err != nil {
			t.Fatal(err)
		}
		h, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir, OS: "windows", IP: "192.0.2.21", Hostname: "win"})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".sandbox", "quirks.json"), quirks, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := host.OnInterface(h, c.name).Facts(t.Context())
		if err != nil || f.ManagementIP != c.address || f.Interface != c.own || f.Subnet != c.subnet {
			t.Errorf("interface %q: address %q of %q in %q, %v; want %q of %q in %q", c.name, f.ManagementIP, f.Interface,
				f.Subnet, err, c.address, c.own, c.subnet)
		}
	}
}
