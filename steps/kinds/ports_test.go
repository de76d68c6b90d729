package kinds_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// Ports that a program uses are not reserved; the error names them.
func TestReservedPortsInUse(t *testing.T) {
	dir := t.TempDir()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir, OS: "windows"})
	stepstest.Must(t, err)
	stepstest.Must(t, os.WriteFile(filepath.Join(dir, ".sandbox", "quirks.json"),
		[]byte(`{"listeners": [{"protocol": "tcp", "port": 30080}]}`), 0o600))
	r := stepstest.Apply(t, h, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("reserved_ports", "p", &kinds.ReservedPorts{Protocol: "tcp", First: 30000,
			Last: 32767})})
	if r.Err == nil || r.Err.Summary != "a port is in use" || !strings.Contains(r.Err.Detail, "30080") {
		t.Errorf("error %v", r.Err)
	}
	stepstest.Applied(t, h, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("reserved_ports", "p", &kinds.ReservedPorts{Protocol: "udp", First: 30000,
			Last: 32767})})
}

func TestPortsRefused(t *testing.T) {
	for _, c := range []struct {
		os   string
		spec steps.Spec
		want string
	}{
		{"windows", stepstest.Spec("dynamic_ports", "p", &kinds.DynamicPorts{Protocol: "tcp", First: 1024,
			Last: 65535}), "1025"},
		{"windows", stepstest.Spec("dynamic_ports", "p", &kinds.DynamicPorts{Protocol: "tcp", First: 50000,
			Last: 50100}), "255"},
		{"windows", stepstest.Spec("dynamic_ports", "p", &kinds.DynamicPorts{Protocol: "sctp", First: 50000,
			Last: 60000}), "sctp"},
		{"windows", stepstest.Spec("reserved_ports", "p", &kinds.ReservedPorts{Protocol: "tcp", First: 9, Last: 8}), "9-8"},
		{"linux", stepstest.Spec("dynamic_ports", "p", &kinds.DynamicPorts{Protocol: "tcp", First: 34000,
			Last: 65535}), "net.ipv4.ip_local_port_range"},
		{"linux", stepstest.Spec("reserved_ports", "p", &kinds.ReservedPorts{Protocol: "tcp", First: 9, Last: 9}),
			"net.ipv4.ip_local_reserved_ports"},
	} {
		r := stepstest.Apply(t, stepstest.OpenHost(t, c.os), stepstest.Memory{}, []steps.Spec{c.spec})
		if r.Err == nil || r.Err.Code != steps.CodeInvalid || !strings.Contains(r.Err.Detail, c.want) {
			t.Errorf("%s %s: error %v, want one that names %s", c.os, c.spec.Args.JSON(), r.Err, c.want)
		}
	}
}
