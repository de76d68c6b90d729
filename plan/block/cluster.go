package block

import (
	"net/netip"
	"net/url"
	"regexp"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/names"
	"nodejoin/steps"
)

// Defaults of the addresses, as kubeadm and the upstream guides have them.
const (
	defaultPodCIDR     = "10.244.0.0/16"
	defaultServiceCIDR = "10.96.0.0/12"
	defaultDNSDomain   = "cluster.local"
)

// decodeCluster reads a cluster block.
func decodeCluster(sc *eval.Scope, b *hcl.Block) *ClusterBlocks {
	s := sc.Section(Root("cluster"), b, sc.Ctx)
	k := &ClusterBlocks{Section: s}
	k.Name, k.Source = b.Labels[0], sc.Files.Place(b.DefRange)
	in := &k.Base
	k.Version = version(s, "kubernetes")
	if env, rest := steps.EnvironmentOf(k.Name); env != "" {
		sc.Fail(b.LabelRanges[0], "invalid name", "A plan in an environment is marked as ENVIRONMENT@NAME, so %q would be "+
			"the plan %q in the environment %q. Give the cluster a name without '@'.", k.Name, rest, env)
	}
	in.Kubernetes = k.Version
	if k.Version != "" {
		if v, err := compat.Kubelet(k.Version); err == nil {
			floor, _ := compat.KubernetesRange()
			switch {
			case !v.Supported:
				s.Fail("kubernetes", "version not supported",
					"Kubernetes %s is older than %s, the oldest whose node components nodejoin configures. Use a newer one.",
					k.Version, floor)
			case v.Assumed != "":
				sc.Warn(s.At("kubernetes"), "version newer than the tables", "%s.", v.Assumed)
			}
		}
	}
	k.ServerVersion = version(s, "server_version")
	if server := k.ServerVersion; server != "" && k.Version != "" {
		if v := compat.CheckSkew(compat.KubeletProgram, k.Version, server); !v.Accepted() {
			s.Fail("kubernetes", "version skew", "A node of Kubernetes %s cannot join an API server of %s: %s. Possible is %s.",
				k.Version, server, v.Why, v.Instead)
		}
	}
	k.APIServer = s.Str("api_server")
	if k.APIServer != "" {
		if u, err := url.Parse(k.APIServer); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Path != "" &&
			u.Path != "/" {
			s.Fail("api_server", "invalid URL",
				"%q is not a URL of an API server. Write https://HOST:PORT, as the nodes reach it.", k.APIServer)
		}
	}
	in.APIServer = k.APIServer
	switch {
	case s.Has("kubeconfig") && s.Has("sandbox"):
		s.Fail("sandbox", "arguments exclude each other",
			"A cluster is real (kubeconfig) or simulated (sandbox). Remove one of the two.")
	case !s.Has("kubeconfig") && !s.Has("sandbox") && !s.Misspelt("kubeconfig") && !s.Misspelt("sandbox"):
		s.FailAt(b.DefRange, "missing argument", "The cluster has neither \"kubeconfig\" nor \"sandbox\", so nothing can "+
			"be asked of it. Give kubeconfig = \"~/.kube/config\"; it is read here and never copied to a node.")
	}
	if v := s.Str("kubeconfig"); v != "" {
		k.Kubeconfig = sc.Files.Home(v)
	}
	if v := s.Str("sandbox"); v != "" {
		k.Sandbox = sc.Files.Home(v)
	}
	if k.CAHash = s.Str("ca_hash"); k.CAHash != "" && !caHash.MatchString(k.CAHash) {
		s.Fail("ca_hash", "invalid digest", "%q is not a pin of a CA. Write \"sha256:\" and 64 hex digits, as kubeadm "+
			"token create --print-join-command shows it.", k.CAHash)
	}
	if k.CAHash != "" && s.Has("sandbox") && !s.Has("kubeconfig") {
		s.FailAt(s.Attrs["ca_hash"].NameRange, "argument without effect",
			"A simulated cluster makes its own CA, so there is nothing to pin. Remove ca_hash.")
	}
	clusterNetworks(s, k)
	in.DNSDomain = s.StrOr("dns_domain", defaultDNSDomain)
	if in.DNSDomain != "" && (len(in.DNSDomain) > 253 || !names.IsDNS(in.DNSDomain)) {
		s.Fail("dns_domain", "invalid domain",
			"%q is not a DNS name. It has lower-case letters, digits, '-' and '.', as in %q.", in.DNSDomain, defaultDNSDomain)
	}
	k.DNSIP, k.DNSDomain = in.DNSIP, in.DNSDomain
	decodeJoin(s, k)
	return k
}

var caHash = regexp.MustCompile(`^sha256:[0-9a-fA-F]{64}$`)

// addresses reads the networks and compares them with each other.
func clusterNetworks(s *eval.Section, k *ClusterBlocks) {
	k.Pods, k.Pods6 = networkArg(s, "pod_cidr", defaultPodCIDR)
	k.Services, k.services6 = networkArg(s, "service_cidr", defaultServiceCIDR)
	k.PodCIDR = families(k.Pods, k.Pods6)
	k.Base.PodCIDR, k.Base.ServiceCIDR = k.PodCIDR, families(k.Services, k.services6)
	for _, n := range []struct{ pods, services netip.Prefix }{{k.Pods, k.Services}, {k.Pods6, k.services6}} {
		if n.pods.Overlaps(n.services) {
			s.Fail("service_cidr", "overlapping networks", "The services' network %s and the pods' network %s share "+
				"addresses, so traffic to services and to pods could not be told apart. Choose separate networks.", n.services,
				n.pods)
		}
	}
	k.PodsAt = s.At("pod_cidr")
	dualStack(s, k)
	nodeNetworks(s, k)
	dnsAddress(s, k)
}

// dnsIP reads the address of the cluster's DNS service, or takes the tenth of the
// services' network, as kubeadm does.
func dnsAddress(s *eval.Section, k *ClusterBlocks) {
	text := s.Str("dns_ip")
	if text == "" {
		if !k.Services.IsValid() || s.Has("dns_ip") {
			return
		}
		ip := k.Services.Addr()
		for range 10 {
			ip = ip.Next()
		}
		if !k.Services.Contains(ip) {
			s.Fail("service_cidr", "network too small", "%s has no tenth address, which the DNS service takes when dns_ip "+
				"is not given. Give dns_ip, or a larger network.", k.Services)
			return
		}
		k.Base.DNSIP = ip.String()
		return
	}
	ip, err := netip.ParseAddr(text)
	switch {
	case err == nil && k.Services.IsValid() && (ip == k.Services.Addr() || ip == k.Services.Addr().Next()):
		s.Fail("dns_ip", "address taken", "%s cannot be the DNS service's address: the first of the services' network %s "+
			"names the network and the next is that of the API server (service kubernetes).", ip, k.Services)
	case err != nil:
		s.Fail("dns_ip", "invalid address", "%q is not an IP address.", text)
	case k.Services.IsValid() && !k.Services.Contains(ip):
		s.Fail("dns_ip", "address outside its network",
			"The DNS service's address %s must lie in the services' network %s, or no pod can resolve a name.", ip, k.Services)
	}
	k.Base.DNSIP = text
}
