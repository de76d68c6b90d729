package recipe

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// kubeletPort is the port of the kubelet's API (kubernetes pkg/cluster/ports).
const kubeletPort = 10250

// Port is a port on which a program of a node listens.
type Port struct {
	Program  string // "kubelet", or the name of a service
	For      string // "its API", "metricsBindAddress"
	Protocol string // "tcp" or "udp"
	Address  string // "" = all addresses of the machine
	Port     uint16
}

// String returns the port as the preflight and the plan write it: "tcp/10250".
func (p Port) String() string { return fmt.Sprintf("%s/%d", p.Protocol, p.Port) }

// Meets reports whether two programs cannot have both: the port is the same and the addresses overlap.
func (p Port) Meets(o Port) bool {
	return p.Protocol == o.Protocol && p.Port == o.Port && (p.Address == "" || o.Address == "" || p.Address == o.Address)
}

const loopbackAddress = "127.0.0.1"

// Ports returns the ports of the programs that the recipe installs, with the plan's settings for them, in a
// fixed order.
func Ports(in Input) []Port {
	out := []Port{
		{"kubelet", "its health", "tcp", loopbackAddress, kubeletHealthz},
		{"kubelet", "its API", "tcp", "", kubeletPort},
	}
	if n := portOf(in.Kubelet.Config["readOnlyPort"]); n != 0 {
		out = append(out, Port{"kubelet", "readOnlyPort", "tcp", "", n})
	}
	if text, ok := flagValue(in.Kubelet.Args, "read-only-port"); ok {
		out = slices.DeleteFunc(out, func(p Port) bool { return p.For == "readOnlyPort" })
		if n := portOf(text); n != 0 {
			out = append(out, Port{"kubelet", "--read-only-port", "tcp", "", n})
		}
	}
	if in.Network.Kind != "none" && !in.KubeProxy.Off || in.Network.HNSNetwork != "" && in.OS == "windows" {
		metrics := Port{"kube-proxy", "its metrics", "tcp", loopbackAddress, kubeProxyMetrics}
		if text, ok := in.KubeProxy.Config["metricsBindAddress"].(string); ok {
			metrics.For = "metricsBindAddress"
			metrics.Address, metrics.Port = listenAddress(text)
		}
		out = append(out, Port{"kube-proxy", "its health", "tcp", "", kubeProxyHealthz})
		if metrics.Port != 0 {
			out = append(out, metrics)
		}
	}
	if in.OS == "windows" && in.Network.Backend == VXLAN {
		out = append(out, Port{"the pod network", "VXLAN", "udp", "", in.Network.Port})
	}
	if g := in.Settings.Guard; g.MetricsPort != 0 {
		out = append(out, Port{nodeService, "its metrics", "tcp", g.metricsAddress(), g.MetricsPort})
	}
	if x := in.Settings.Exporter; x != nil {
		out = append(out, Port{"windows_exporter", "its metrics", "tcp", "", x.Port})
	}
	return out
}

// metricsAddress is where the metrics are served; "" = at all addresses.
func (g Guard) metricsAddress() string {
	if g.Certificate != "" {
		return ""
	}
	return loopbackAddress
}

// portTexts returns ports for a preflight, without duplicates.
func portTexts(in Input) []string {
	var out []string
	for _, p := range Ports(in) {
		if !slices.Contains(out, p.String()) {
			out = append(out, p.String())
		}
	}
	return out
}

// portOf returns the port of a configuration field or flag; 0 = none.
func portOf(v any) uint16 {
	n, err := strconv.ParseUint(fmt.Sprint(v), 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// flagValue returns the last value of a flag, "--name=value" or "--name value".
func flagValue(args []string, name string) (value string, ok bool) {
	for i, a := range args {
		a = "-" + strings.TrimLeft(a, "-")
		switch v, found := strings.CutPrefix(a, "-"+name+"="); {
		case found:
			value, ok = v, true
		case a == "-"+name && i+1 < len(args):
			value, ok = args[i+1], true
		}
	}
	return value, ok
}

// listenAddress parses "127.0.0.1:80", ":80" or "[::]:80"; no address means all.
func listenAddress(text string) (address string, port uint16) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0
	}
	if ip, err := netip.ParseAddr(host); err == nil && !ip.IsUnspecified() {
		address = ip.String()
	} else if host == "localhost" {
		address = loopbackAddress
	}
	return address, portOf(number)
}

// listenFlags are flags that set where a program listens: those of Prometheus exporters, of the Kubernetes
// programs and of controllers built with their libraries.
var listenFlags = []string{"web.listen-address", "listen-address", "metrics-bind-address", "health-probe-bind-address",
	"healthz-bind-address", "metrics-listen-address"}

// PortsOf returns the ports that the command line of another service names.
func PortsOf(service string, command []string) []Port {
	var out []Port
	for _, name := range listenFlags {
		text, ok := flagValue(command, name)
		if !ok {
			continue
		}
		if address, n := listenAddress(text); n != 0 {
			out = append(out, Port{service, "--" + name, "tcp", address, n})
		}
	}
	slices.SortFunc(out, func(a, b Port) int { return cmp.Compare(a.Port, b.Port) })
	return out
}

func loopback(port int) string { return fmt.Sprintf("http://127.0.0.1:%d/healthz", port) }
