package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// guardID is what the ids of the account of nodejoin-node begin with.
const guardID = "guard"

// guardInterval is the time between two checks, unless the plan says otherwise.
const guardInterval = time.Minute

// bootSteps are the steps that the service nodejoin-node repeats, in order. A node has those of its system.
var bootSteps = []string{"module_overlay", "module_br_netfilter", "module_vxlan", "sysctl_bridge_iptables",
	"sysctl_ip_forward", "containerd_config", "containerd", "containerd_ready", "docker", "docker_ready",
	"kubelet_config", "kubelet", "kubelet_ready", "pod_network", "net_conf", "flannel_network", "flanneld", "subnet_env",
	"cni_conf", "source_vip", "kube_proxy_config", "kube_proxy", "kube_proxy_ready"}

// bootPart returns bootSteps as they run after a boot. The file with them holds no passwords: a configuration that has
// some is left out, and a service whose environment has some is only started if it does not run.
func (b *build) bootPart() []steps.Spec {
	var out []steps.Spec
	for _, id := range bootSteps {
		i := slices.IndexFunc(b.specs, func(s steps.Spec) bool { return s.ID == id })
		if i < 0 {
			continue
		}
		s := b.specs[i]
		if f, ok := kinds.As[kinds.File](s); ok && f.Sensitive {
			continue
		}
		if service, ok := kinds.As[kinds.Service](s); ok {
			service.RestartIf = "" // it is about the cluster, at the time of an apply
			s.Args = steps.MustArgs(service)
			if len(service.SensitiveEnvironment) > 0 {
				s.Kind, s.Args = "service_running", steps.MustArgs(&kinds.ServiceRunning{Name: service.Name, Log: service.Log})
			}
		}
		out = append(out, s)
	}
	return out
}

// guard is what the service does between two applies; nil = nothing.
func (b *build) guard() *steps.Guard {
	set := b.in.Settings.Guard
	if set.Off {
		return nil
	}
	g := &steps.Guard{Interval: cmp.Or(set.Interval, guardInterval), API: b.in.APIServer, Textfile: set.Textfile,
		Account: guardID + "_token_file"}
	if b.in.OS == "linux" {
		g.Folders = []string{linKubelet, linContainerdData}
	} else {
		b.guardHNS(g)
	}
	if set.MetricsPort != 0 {
		g.Listen = fmt.Sprintf("%s:%d", set.metricsAddress(), set.MetricsPort)
	}
	if set.Certificate != "" {
		g.Certificate, g.Key = b.metricsFile("crt"), b.metricsFile("key")
	}
	return g
}

// guardHNS adds what only Windows has: HNS networks, which end with their service.
func (b *build) guardHNS(g *steps.Guard) {
	g.Folders = []string{winKubelet}
	if b.in.Runtime.Kind == "containerd" {
		g.Folders = append(g.Folders, winContainerdData)
	}
	switch {
	case b.flannel():
		g.Network, g.Restart = b.networkName(), "flanneld"
		if b.in.Runtime.Kind == "containerd" {
			g.CRI = containerdPipe
		}
	case b.kubeProxy(): // the network is the CNI's, and so are its pods
		g.Network, g.Restart = b.in.Network.HNSNetwork, "kube_proxy"
	}
}

func (b *build) metricsFile(ending string) string {
	return host.Join(b.in.OS, b.data(), "metrics."+ending)
}

// metricsFiles adds the certificate and key of the metrics. The service reads them again for each connection.
func (b *build) metricsFiles() []string {
	set := b.in.Settings.Guard
	if set.Certificate == "" || set.Off {
		return nil
	}
	b.add("metrics_certificate", "file", "Certificate of the metrics of "+nodeService,
		&kinds.File{Path: b.metricsFile("crt"), Access: host.AccessPrivate, Content: set.Certificate}, "data_dir")
	b.add("metrics_key", "file", "Key of the metrics of "+nodeService,
		&kinds.File{Path: b.metricsFile("key"), Access: host.AccessPrivate, Content: set.Key, Sensitive: true}, "data_dir")
	return []string{"metrics_certificate", "metrics_key"}
}
