package steps_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host/sandbox"
)

// Ports that a program has are not taken from it, and the error says which.
func TestReservedPortsInUse(t *testing.T) {
	dir := t.TempDir()
	h, err := sandbox.Open(sandbox.Config{Path: dir, OS: "windows"})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, ".sandbox", "quirks.json"), []byte(`{"listeners": [{"protocol": "tcp", "port": 30080}]}`), 0o600))
	r := apply(t, h, memory{}, []steps.Spec{spec("reserved_ports", "p", &steps.ReservedPorts{Protocol: "tcp", First: 30000, Last: 32767})})
	if r.Err == nil || r.Err.Summary != "a port is in use" || !strings.Contains(r.Err.Detail, "30080") {
		t.Errorf("error %v", r.Err)
	}
	applied(t, h, memory{}, []steps.Spec{spec("reserved_ports", "p", &steps.ReservedPorts{Protocol: "udp", First: 30000, Last: 32767})})
}

func TestPortsRefused(t *testing.T) {
	for _, c := range []struct {
		os   string
		spec steps.Spec
		want string
	}{
		{"windows", spec("dynamic_ports", "p", &steps.DynamicPorts{Protocol: "tcp", First: 1024, Last: 65535}), "1025"},
		{"windows", spec("dynamic_ports", "p", &steps.DynamicPorts{Protocol: "tcp", First: 50000, Last: 50100}), "255"},
		{"windows", spec("dynamic_ports", "p", &steps.DynamicPorts{Protocol: "sctp", First: 50000, Last: 60000}), "sctp"},
		{"windows", spec("reserved_ports", "p", &steps.ReservedPorts{Protocol: "tcp", First: 9, Last: 8}), "9-8"},
		{"linux", spec("dynamic_ports", "p", &steps.DynamicPorts{Protocol: "tcp", First: 34000, Last: 65535}), "net.ipv4.ip_local_port_range"},
		{"linux", spec("reserved_ports", "p", &steps.ReservedPorts{Protocol: "tcp", First: 9, Last: 9}), "net.ipv4.ip_local_reserved_ports"},
	} {
		r := apply(t, openHost(t, c.os), memory{}, []steps.Spec{c.spec})
		if r.Err == nil || r.Err.Code != steps.CodeInvalid || !strings.Contains(r.Err.Detail, c.want) {
			t.Errorf("%s %s: error %v, want one that names %s", c.os, c.spec.Args, r.Err, c.want)
		}
	}
}
