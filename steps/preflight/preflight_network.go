package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// networkChecks are about the machine's addresses and its connection to the cluster.
var networkChecks = []preflightCheck{
	{id: "no-address", severity: steps.SeverityError,
		why: "the kubelet reports an address, and other nodes send the pods' packets to it",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			ip := s.address()
			switch {
			case !ip.IsValid() && s.q.Interface != "":
				return noAdapter(ctx, s)
			case !ip.IsValid():
				return found("give the machine an address and a default route, or say management_ip in the plan",
					"the machine has no IPv4 address with a default route")
			case ip.IsLinkLocalUnicast():
				return found("give the machine an address by DHCP or by hand",
					"the machine's address is %s, which machines give themselves without a DHCP lease", ip)
			}
			return nil, nil
		}},
	{id: "address-elsewhere", severity: steps.SeverityError,
		why: "the pods' packets would go to another machine, or to none",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			const says = "the plan says %s, but no adapter of the machine has it"
			var out []observed
			if ip := s.q.Address6; ip != "" && !steps.HasRef(ip) && !slices.Contains(s.facts().IPv6, ip) {
				out, _ = found("correct management_ip6 in the plan, or the machine's address", says, ip)
			}
			if s.q.Address == "" || steps.HasRef(s.q.Address) {
				return out, nil
			}
			_, has, err := s.owner(ctx)
			if err == nil && !has {
				out = append(out,
					observed{fmt.Sprintf(says, s.q.Address), "correct management_ip in the plan, or the machine's address"})
			}
			return out, err
		}},
	{id: "address-in-cluster-network", severity: steps.SeverityError,
		why: "pods would mistake the machine's packets for those of a pod or a service", look: addressInCluster},
	{id: "network-overlap", severity: steps.SeverityError,
		why: "packets for the machine's own network would go to pods or services", look: networkOverlap},
	{id: "address-leased", severity: steps.SeverityNote,
		why: "the pod network is bound to the address that the node joined with",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			a, has, err := s.owner(ctx)
			if err != nil || !has || !a.DHCP {
				return nil, err
			}
			return found("keep the lease for this machine, or set the address by hand",
				"the address %s of %s is leased by DHCP", s.address(), a.Name)
		}},
	// Before Windows Server 2022 HNS drops a static address when it makes a switch on
	// the adapter (openshift/windows-machine-config-operator, pkg/windows/windows.go).
	{id: "static-address-lost", severity: steps.SeverityError, os: "windows",
		why: "before Windows Server 2022, HNS drops a static address when it makes a virtual switch, and the " +
			"machine loses the network", look: staticAddress},
	{id: "address-on-switch", severity: steps.SeverityWarning, os: "windows",
		why: "HNS makes the pod network's switch on an adapter of the machine, and another virtual switch already " +
			"has it", look: addressOnSwitch},
	{id: "default-routes", severity: steps.SeverityWarning,
		why: "which address the node reports depends on metrics that change",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			list, err := s.adapters(ctx)
			var names []string
			for _, a := range list {
				if a.Gateway {
					names = append(names, a.Name)
				}
			}
			if err != nil || len(names) < 2 || s.q.Address != "" && !steps.HasRef(s.q.Address) {
				return nil, err
			}
			return found("say management_ip in the plan, or leave one default route",
				"several adapters have a default route: %s", strings.Join(names, ", "))
		}},
	{id: "api-name", severity: steps.SeverityError, why: "no program of the node would find the cluster",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			if _, err := s.api(ctx); errors.Is(err, host.ErrNameUnknown) {
				return found("fix the machine's name servers, or use a name or address in api_server that it can resolve",
					"the machine cannot resolve %s", s.q.APIServer)
			}
			return nil, nil
		}},
	{id: "api-unreachable", severity: steps.SeverityError, why: "the kubelet would never be registered",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			if _, err := s.api(ctx); err != nil && !errors.Is(err, host.ErrNameUnknown) {
				return found("open the connection from the machine to the API server (route, firewall, load "+
					"balancer), or correct api_server", "%s does not answer the machine: %v", s.q.APIServer, reason(err))
			}
			return nil, nil
		}},
	{id: "api-certificate", severity: steps.SeverityError,
		why: "the node's programs trust only a server with a certificate of the cluster's CA for the name in " +
			"api_server", look: apiCertificate},
	{id: "clock-skew", severity: steps.SeverityError,
		why:  "certificates and tokens are valid only for a time, and outside of it a login fails",
		look: clockSkew},
	{id: "proxy-exceptions", severity: steps.SeverityWarning,
		why: "programs that read these variables, also in HostProcess pods, would ask the proxy for the API server, " +
			"pods and services", look: proxyExceptions},
	{id: "proxy-unreachable", severity: steps.SeverityWarning,
		why: "nothing can be fetched through it, container images included", look: proxyUnreachable},
}

// noAdapter is what there is instead of an address on the plan's adapter.
func noAdapter(ctx context.Context, s *pass) ([]observed, error) {
	list, err := s.adapters(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range list {
		switch {
		case !host.HasAdapterName(a, s.q.Interface):
			names = append(names, strconv.Quote(a.Name))
		case len(a.Prefixes()) == 0:
			return found("give the adapter an address by DHCP or by hand, or correct interface in the plan",
				"the adapter %q has no IPv4 address", a.Name)
		}
	}
	return found("correct interface in the plan", "the machine has no adapter %q; it has %s", s.q.Interface,
		cmp.Or(strings.Join(names, ", "), "none"))
}

func addressInCluster(_ context.Context, s *pass) ([]observed, error) {
	ip := s.address()
	for _, c := range s.taken() {
		if c.Contains(ip) {
			return found("choose cluster networks that do not overlap the machines', or another address",
				"the machine's address %s is in the network of the %s, %s", ip, c.what, c)
		}
	}
	return nil, nil
}

// networkOverlap skips the adapters that a virtual switch gives the machine ("vEthernet (NAME)"): those of
// the pod network have addresses of pods.
func networkOverlap(ctx context.Context, s *pass) ([]observed, error) {
	list, err := s.adapters(ctx)
	if err != nil {
		return nil, err
	}
	var out []observed
	for _, a := range list {
		if strings.HasPrefix(a.Name, "vEthernet") || slices.ContainsFunc([]string{"cni", "flannel", "veth"},
			func(p string) bool { return strings.HasPrefix(a.Name, p) }) {
			continue
		}
		for _, p := range a.Prefixes() {
			for _, c := range s.taken() {
				if p.Overlaps(c.Prefix) && !c.Contains(s.address()) {
					out = append(out,
						observed{fmt.Sprintf("the network %s of %s overlaps that of the %s, %s", p.Masked(), a.Name,
							c.what, c), "choose cluster networks that do not overlap the machine's"})
				}
			}
		}
	}
	return out, nil
}

func staticAddress(ctx context.Context, s *pass) ([]observed, error) {
	old, err := host.OlderBuild(s.facts().Build, "10.0.20348")
	if err != nil || !old || s.q.StaticKept {
		return nil, err
	}
	a, has, err := s.owner(ctx)
	if err != nil || !has || a.DHCP {
		return nil, err
	}
	// A node that has joined has its switch and its address.
	if own, err := s.own(ctx); err != nil || len(own) > 0 {
		return nil, err
	}
	v, _, err := host.LookupRegistry(ctx, s.r, host.CurrentControlSet+`Services\hns\State`, "DeviceLessNicDisabled")
	if err != nil || v.Number == 1 {
		return nil, err
	}
	return found("say host { static_address = true } in the plan", "the address %s of %s is static", s.address(), a.Name)
}

// addressOnSwitch checks whether the machine's address is that of a virtual switch ("vEthernet (NAME)").
// The switch of the node's own network, left from an earlier join, is used again.
func addressOnSwitch(ctx context.Context, s *pass) ([]observed, error) {
	own, err := s.own(ctx)
	if err != nil || len(own) > 0 || s.q.HNSNetworks == nil {
		return nil, err
	}
	a, has, err := s.owner(ctx)
	if err != nil || !has || !strings.HasPrefix(a.Name, "vEthernet") {
		return nil, err
	}
	list, err := s.r.HNSNetworks(ctx)
	if err != nil && !errors.Is(err, host.ErrUnsupported) || slices.ContainsFunc(list, s.ownNetwork) {
		return nil, err
	}
	return found("remove that switch if nobody needs it, or set management_ip to the address of another adapter",
		"the address %s is that of %s, a virtual switch", s.address(), a.Name)
}

// maxSkew is how far the cluster backdates certificates, for clocks that differ (kubernetes
// cmd/kube-controller-manager/app/certificates.go signs 5 minutes back: pkg/controller/certificates/signer,
// `backdate`).
const maxSkew = 5 * time.Minute

func clockSkew(ctx context.Context, s *pass) ([]observed, error) {
	answer, err := s.api(ctx)
	if err != nil {
		return nil, fmt.Errorf("the API server's clock is not known: %w", reason(err))
	}
	if s.q.APIServer == "" {
		return nil, nil
	}
	if answer.Date.IsZero() {
		return nil, errors.New("the API server does not send its time")
	}
	skew := answer.Clock.Sub(answer.Date).Round(time.Second)
	if skew.Abs() < maxSkew {
		return nil, nil
	}
	word := "ahead of"
	if skew < 0 {
		word = "behind"
	}
	return found("set the machine's clock and its time server", "the machine's clock is %s %s the API server's",
		skew.Abs(), word)
}

// proxyExceptions reads what Go programs read (golang.org/x/net/http/httpproxy): NO_PROXY has names, which
// include their subdomains, addresses and networks.
func proxyExceptions(ctx context.Context, s *pass) ([]observed, error) {
	u, err := url.Parse(s.q.APIServer)
	if s.q.Proxy || s.q.APIServer == "" || err != nil {
		return nil, err
	}
	proxy, err := host.LookupEnv(ctx, s.r, "HTTPS_PROXY")
	if err != nil || proxy == "" {
		return nil, err
	}
	exceptions, err := host.LookupEnv(ctx, s.r, "NO_PROXY")
	if err != nil {
		return nil, err
	}
	var missing []string
	if !excepted(exceptions, u.Hostname()) {
		missing = append(missing, u.Hostname())
	}
	for _, c := range s.clusterNetworks() {
		if !exceptedNetwork(exceptions, c.Prefix) {
			missing = append(missing, c.String())
		}
	}
	if missing == nil {
		return nil, nil
	}
	return found("say proxy { ... } in the plan, which completes NO_PROXY, or add them to NO_PROXY",
		"HTTPS_PROXY is set, and NO_PROXY lacks %s", strings.Join(missing, ", "))
}

func exceptedNetwork(list string, p netip.Prefix) bool {
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if o, err := netip.ParsePrefix(word); word == "*" || err == nil && o.Bits() <= p.Bits() && o.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

func excepted(list, name string) bool {
	ip, ipErr := netip.ParseAddr(name)
	for word := range strings.SplitSeq(strings.ToLower(list), ",") {
		word = strings.TrimSpace(word)
		if word == "*" || word == strings.ToLower(name) {
			return true
		}
		if p, err := netip.ParsePrefix(word); err == nil && ipErr == nil && p.Contains(ip) {
			return true
		}
		if below := strings.TrimPrefix(word, "*"); word != "" && ipErr != nil &&
			strings.HasSuffix("."+strings.ToLower(name), "."+strings.TrimPrefix(below, ".")) {
			return true
		}
	}
	return false
}

// neighbourChecks are about what else is on the machine.
var neighbourChecks = []preflightCheck{
	{id: "foreign-service", severity: steps.SeverityError, why: "nodejoin does not take over what it did not make",
		look: foreignServices},
	{id: "service-missing", severity: steps.SeverityError,
		why: "the node needs a service that something else installs", look: missingServices},
	{id: "other-kubernetes", severity: steps.SeverityError,
		why: "two kubelets on one machine undo each other's network and containers",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			return registeredServices(ctx, s, "runs a node of its own", "remove that node with the tool that made it",
				"rke2", "k3s", "k0sworker", "rancher-wins", "microk8s", "windows-instance-config-daemon")
		}},
	{id: "other-runtime", severity: steps.SeverityWarning,
		why: "the node does not know about the networks and the space of a second container runtime",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			return registeredServices(ctx, s, "is another container runtime", "remove it if nobody needs it",
				"docker", "com.docker.service", "cri-dockerd", "crio", "podman")
		}},
	{id: "port-taken", severity: steps.SeverityError, why: "a program of the node could not listen", look: portsTaken},
	{id: "port-dynamic", severity: steps.SeverityWarning, os: "windows",
		why: "Windows gives such a port to any program that asks for one, and its NAT reserves them by the hundred; " +
			"then a program of the node cannot listen", look: portsDynamic},
	{id: "port-excluded", severity: steps.SeverityError, os: "windows",
		why:  "Windows or its NAT has reserved the port and refuses it to the node's program",
		look: portsExcluded},
	{id: "hns-network-foreign", severity: steps.SeverityWarning, os: "windows",
		why: "another virtual switch may hold the adapter that the pod network needs", look: foreignNetworks},
	{id: "leftovers", severity: steps.SeverityWarning,
		why: "this node would use addresses and networks of an earlier one", look: leftovers},
}

func foreignServices(ctx context.Context, s *pass) ([]observed, error) {
	var out []observed
	for _, name := range s.q.Services {
		svc, err := s.r.Service(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		if !steps.Ours(svc, s.e.Record) {
			out = append(out,
				observed{fmt.Sprintf("service %s is registered (%s) but not by nodejoin", name,
					strings.Join(svc.Command, " ")), steps.ForeignRemedy(name)})
		}
	}
	return out, nil
}

func missingServices(ctx context.Context, s *pass) ([]observed, error) {
	var out []observed
	for _, name := range s.q.Required {
		svc, err := s.r.Service(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, observed{fmt.Sprintf("service %s is not registered", name),
				fmt.Sprintf("install the software that service %s belongs to", name)})
		case err != nil:
			return out, err
		case svc.State != host.ServiceRunning:
			out = append(out, observed{fmt.Sprintf("service %s is %s", name, svc.State), fmt.Sprintf("start service %s", name)})
		}
	}
	return out, nil
}

func registeredServices(ctx context.Context, s *pass, is, remedy string, names ...string) ([]observed, error) {
	list, err := s.registered(ctx, names...)
	var out []observed
	for _, svc := range list {
		if !steps.Ours(svc, s.e.Record) { // ours goes with the plan that had it
			out = append(out, observed{fmt.Sprintf("service %s %s", svc.Name, is), remedy})
		}
	}
	return out, err
}

// foreignNetworks finds the networks that hold an adapter: a network of type NAT does not.
func foreignNetworks(ctx context.Context, s *pass) ([]observed, error) {
	if s.q.HNSNetworks == nil {
		return nil, nil
	}
	list, err := s.r.HNSNetworks(ctx)
	if errors.Is(err, host.ErrUnsupported) {
		return nil, nil // without HNS there are no networks; containers-feature reports it
	}
	var out []observed
	for _, n := range list {
		if !s.ownNetwork(n) && slices.Contains([]string{"overlay", "l2bridge", "l2tunnel", "transparent"},
			strings.ToLower(n.Type)) {
			out = append(out, observed{fmt.Sprintf("there is an HNS network %s of type %s", n.Name, n.Type),
				"remove the network with the tool that made it, if nobody needs it"})
		}
	}
	return out, err
}

// ownNetwork reports whether an HNS network has the name of one of the node's.
func (s *pass) ownNetwork(n host.HNSNetwork) bool {
	return slices.ContainsFunc(s.q.HNSNetworks, func(o string) bool { return strings.EqualFold(o, n.Name) })
}

// leftovers are findings only while nodejoin has registered no service of the node: later they are the
// node's.
func leftovers(ctx context.Context, s *pass) ([]observed, error) {
	own, err := s.own(ctx)
	if err != nil || len(own) > 0 {
		return nil, err
	}
	var out []observed
	for _, file := range s.q.Leftovers {
		_, err := s.r.Stat(ctx, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, err
		}
		out = append(out, observed{file + " is left from an earlier node", "remove " + file + " if that node is gone"})
	}
	return out, nil
}
