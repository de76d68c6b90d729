package recipe

import (
	"slices"
	"strings"
	"testing"
)

func TestPortsMeet(t *testing.T) {
	all, one, two := Port{Protocol: "tcp", Port: 1}, Port{Protocol: "tcp", Address: "127.0.0.1", Port: 1},
		Port{Protocol: "tcp", Address: "10.0.0.1", Port: 1}
	if !all.Meets(one) || !one.Meets(all) || !one.Meets(one) || one.Meets(two) ||
		all.Meets(Port{Protocol: "udp", Port: 1}) || all.Meets(Port{Protocol: "tcp", Port: 2}) {
		t.Error("Meets is wrong for some ports")
	}
}

func TestPortsOf(t *testing.T) {
	for command, want := range map[string][]Port{
		"a.exe --web.listen-address=:9182":   {{"s", "--web.listen-address", "tcp", "", 9182}},
		"a.exe -listen-address 127.0.0.1:80": {{"s", "--listen-address", "tcp", "127.0.0.1", 80}},
		"a.exe --metrics-bind-address=[::]:8080 --listen-address=x:1": {{"s", "--listen-address", "tcp", "", 1},
			{"s", "--metrics-bind-address", "tcp", "", 8080}},
		"a.exe --metrics-bind-address=0 --port=10250 listen-address": nil,
		"a.exe --metrics-bind-address=localhost:81": {{"s", "--metrics-bind-address", "tcp",
			"127.0.0.1", 81}},
		"a.exe --listen-address":        nil,
		"a.exe --listen-address=:70000": nil,
	} {
		if have := PortsOf("s", strings.Fields(command)); !slices.Equal(have, want) {
			t.Errorf("%s: %v, want %v", command, have, want)
		}
	}
}
