package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"nodejoin/steps/host"
)

// netConf is flannel's net-conf.json (flannel, Documentation/configuration.md and
// backends.md).
type netConf struct {
	Network string `json:"Network"`
	Backend struct {
		Type string `json:"Type"`
		Name string `json:"Name"`
		VNI  uint32 `json:"VNI"`
		Port uint16 `json:"Port"`
	} `json:"Backend"`
}

// Defaults of flannel's flags --net-config-path and --subnet-file, and of its
// vxlan backend on Windows (pkg/backend/vxlan/vxlan_windows.go).
const (
	defaultNetConf    = "/etc/kube-flannel/net-conf.json"
	defaultSubnetFile = "/run/flannel/subnet.env"
	defaultVNI        = 4096
	defaultPort       = 4789
)

// launchFlanneld makes the HNS network and writes the subnet file.
func (h *Host) launchFlanneld(ctx context.Context, s *state, p program) error {
	kubeconfig, err := h.credential(p.flag("kubeconfig-file"))
	if errors.Is(err, fs.ErrNotExist) {
		return exit("fail to create kubernetes config: %v", err)
	}
	if err != nil {
		return err
	}
	raw, err := h.read(h.onDrive(or(p.flag("net-config-path"), defaultNetConf)))
	if err != nil {
		return exit("failed to read net conf: %v", err)
	}
	var conf netConf
	if err := json.Unmarshal(raw, &conf); err != nil {
		return exit("error parsing subnet config: %v", err)
	}
	network, err := netip.ParsePrefix(conf.Network)
	if err != nil {
		return exit("error parsing subnet config: %v", err)
	}
	if strings.EqualFold(conf.Backend.Type, "vxlan") && conf.Backend.VNI == 0 && h.windows() {
		conf.Backend.VNI = defaultVNI
	}
	subnet, err := h.podSubnet(ctx, kubeconfig, strings.ToLower(or(p.environ("NODE_NAME"), h.cfg.Hostname)), network,
		conf)
	if err != nil {
		return err
	}
	mtu := 1500
	if strings.EqualFold(conf.Backend.Type, "vxlan") {
		mtu = 1450 // 50 bytes of VXLAN headers
	}
	if h.windows() {
		n, err := h.network(conf, subnet)
		if err != nil {
			return err
		}
		if err := h.ensureNetwork(s, n, p.flag("iface")); err != nil {
			return err
		}
	} else if strings.EqualFold(conf.Backend.Type, "vxlan") {
		s.addLink(fmt.Sprintf("flannel.%d", max(conf.Backend.VNI, 1))) // pkg/backend/vxlan/vxlan.go
	}
	gateway := subnet.Addr().Next()
	text := fmt.Sprintf("FLANNEL_NETWORK=%s\nFLANNEL_SUBNET=%s/%d\nFLANNEL_MTU=%d\nFLANNEL_IPMASQ=%t\n",
		network, gateway, subnet.Bits(), mtu, p.flag("ip-masq") == "true")
	return h.write(ctx, s, h.onDrive(or(p.flag("subnet-file"), defaultSubnetFile)), text, host.AccessDefault)
}

// onDrive resolves a path without a drive as Windows does: on the current drive.
func (h *Host) onDrive(p string) string {
	if h.windows() && (strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`)) {
		return "C:" + p
	}
	return p
}

// podSubnet returns the pod CIDR of the node, which flannel's Kubernetes subnet manager needs. flannel also
// annotates the Node with its backend.
func (h *Host) podSubnet(ctx context.Context, kubeconfig credential, node string, network netip.Prefix,
	conf netConf) (netip.Prefix, error) {
	if h.cfg.ClusterDir == "" {
		return netip.PrefixFrom(network.Masked().Addr(), max(24, network.Bits())), nil
	}
	cluster, err := OpenCluster(ctx, ClusterConfig{Dir: h.cfg.ClusterDir})
	if err != nil {
		return netip.Prefix{}, err
	}
	if len(kubeconfig.user.Cert) == 0 {
		if err := cluster.authenticated(ctx, kubeconfig.user.Token); err != nil {
			return netip.Prefix{}, refusal(err)
		}
	}
	n, err := cluster.Node(ctx, node)
	if errors.Is(err, fs.ErrNotExist) {
		return netip.Prefix{}, exit("failed to acquire lease: nodes %q not found", node)
	}
	if err != nil {
		return netip.Prefix{}, refusal(err)
	}
	subnet, err := netip.ParsePrefix(n.PodCIDR)
	if err != nil {
		return netip.Prefix{}, exit("failed to acquire lease: node %q pod cidr not assigned", node)
	}
	if err := cluster.announce(ctx, node, h.cfg.IP, conf); err != nil {
		return netip.Prefix{}, refusal(err)
	}
	return subnet, nil
}

// ensureNetwork adopts a network of its name, type and subnet, and makes one in place of any other. Its overlay
// names the adapter that it has found before (pkg/backend/vxlan/device_windows.go); its bridge names none.
func (h *Host) ensureNetwork(s *state, n host.HNSNetwork, address string) error {
	key := h.fold(n.Name)
	have, there := s.Networks[key]
	if there && have.Type == n.Type && slices.Equal(have.Subnets, n.Subnets) {
		return nil
	}
	adapter := ""
	if n.Type == "Overlay" {
		list, err := h.adapters(s)
		if err != nil {
			return err
		}
		adapter = adapterWith(list, or(address, h.cfg.IP))
	}
	if there {
		s.deleteNetwork(key)
	}
	if err := h.makeNetwork(s, n, adapter); err != nil {
		return exit("failed to create HostComputeNetwork %s: %v", n.Name, err)
	}
	delete(s.Due, key) // it waits for the address
	return nil
}

func (h *Host) network(conf netConf, subnet netip.Prefix) (host.HNSNetwork, error) {
	n := host.HNSNetwork{ManagementIP: h.cfg.IP, Subnets: []string{subnet.String()}, ID: networkID()}
	switch strings.ToLower(conf.Backend.Type) {
	case "vxlan":
		n.Type, n.VNI, n.Port = "Overlay", conf.Backend.VNI, conf.Backend.Port
		if n.VNI < 4096 {
			return n, exit("invalid VXLAN network identifier %d: Windows needs 4096 or more", n.VNI)
		}
		if n.Port == 0 {
			n.Port = defaultPort
		}
		n.Name = or(conf.Backend.Name, fmt.Sprintf("flannel.%d", n.VNI))
	case "host-gw":
		n.Type, n.Name = "L2Bridge", or(conf.Backend.Name, "cbr0")
	default:
		return n, exit("unknown backend type %q", conf.Backend.Type)
	}
	return n, nil
}

// proxyConfig is the part of KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) that the sandbox uses.
type proxyConfig struct {
	ClientConnection struct {
		Kubeconfig string `json:"kubeconfig"`
	} `json:"clientConnection"`
}

// launchKubeProxy checks the configuration and the credentials of kube-proxy.
func (h *Host) launchKubeProxy(p program) error {
	path := p.flag("kubeconfig")
	if config := p.flag("config"); config != "" {
		raw, err := h.read(config)
		if err != nil {
			return exit("failed to load config: %v", err)
		}
		var c proxyConfig
		if err := yaml.Unmarshal(raw, &c); err != nil {
			return exit("failed to load config %s: %v", config, err)
		}
		path = or(c.ClientConnection.Kubeconfig, path)
	}
	if path == "" {
		return nil
	}
	_, err := h.credential(path)
	if errors.Is(err, fs.ErrNotExist) {
		return exit("kubeconfig %s: %v", path, err)
	}
	return err
}

// announce annotates the Node as flanneld does (flannel pkg/subnet/kube/kube.go).
func (k *Cluster) announce(ctx context.Context, node, ip string, conf netConf) error {
	data := "null"
	if strings.EqualFold(conf.Backend.Type, "vxlan") {
		data = fmt.Sprintf(`{"VNI":%d,"VtepMAC":"00:15:5d:00:00:01"}`, conf.Backend.VNI)
	}
	const prefix = "flannel.alpha.coreos.com/"
	return k.SetAnnotations(ctx, node,
		map[string]string{prefix + "backend-type": strings.ToLower(conf.Backend.Type), prefix + "backend-data": data,
			prefix + "public-ip": ip, prefix + "kube-subnet-manager": "true"}, nil)
}
